"""The errors that both sides share.

Each class has one slug and three forms: a typed exception in Python, RFC 9457 problem details on the wire,
and at the terminal a sentence with a hint that says what to do::

    OdcError
     +- ProtocolError                    bytes or messages that violate the specification
     |   +- MalformedMessageError
     |   +- UnsupportedVersionError
     |   +- UnknownAlgorithmError        (`protocol.version`)
     |   +- LimitExceededError
     |   +- ShapeMismatchError
     |   +- DtypeMismatchError
     |   +- NotFiniteError
     |   +- LabelOutOfRangeError
     |   +- RowTooLongError              (`protocol.row_bounds`)
     |   +- DigestMismatchError
     |   +- OffsetMismatchError
     |   +- TruncatedError
     +- TrustError                       an author or a permission that is not valid
     |   +- SignatureError
     |   +- CertificateRequiredError
     |   +- CertificateRefusedError
     |   +- CertificateRevokedError
     |   +- NotPermittedError
     |   +- InvitationError
     |   +- SealBrokenError
     |   +- LedgerError
     |   +- TokenRefusedError
     +- InputError                       a file or an option that cannot be used
     |   +- UnreadableFileError
     +- StorageError                     a disk or a database that fails
     |   +- StorageBusyError
     |   +- DiskFullError
     |   +- LostDataError
     |   +- OlderServerError             (`protocol.version`)
     +- TooManyRequestsError             a request that is not admitted now (`protocol.busy`)
     +- RoundError                       a valid message at the wrong time
         +- OutOfOrderError
         +- TermsNotAcceptedError
         +- TermsMismatchError
         +- ConsentMissingError
         +- DifferentUplinkError
         +- AlreadyExistsError
         +- UploadSupersededError
         +- NotFoundError
         +- RoundFailedError

A message says what was expected and what came, and no value from a table, a key or a matrix: logs keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

PROBLEM_TYPE_PREFIX = "/problems/"


class OdcError(Exception):
    """The base of all errors, and the form in which an unknown or unexpected one is shown.

    Attributes
    ----------
    detail : str
        What was expected and what came, in this case.
    context : dict
        Public extension members of the problem document, JSON values only.
    """

    code: ClassVar[str] = "error"
    title: ClassVar[str] = "Something went wrong"
    hint: str = "run the command again with --verbose and read the last lines"
    is_quoted: bool = False
    """Whether its words are those of a peer, which may say anything."""

    def __init__(self, detail: str, /, **context: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.context = context

    def to_problem(self) -> dict[str, Any]:
        """Return the RFC 9457 members (without ``status`` and ``instance``, which HTTP knows)."""
        return {
            **self.context,
            "type": PROBLEM_TYPE_PREFIX + self.code,
            "title": self.title,
            "detail": self.detail,
            "hint": self.hint,
        }

    @classmethod
    def rebuilt(cls, detail: str, hint: str, context: dict[str, Any]) -> Self:
        """Return an instance with the text of a received problem, without calling the class's constructor."""
        error = cls.__new__(cls)
        OdcError.__init__(error, detail, **context)
        error.hint = hint
        return error


class ProtocolError(OdcError):
    """Bytes or a message that violate docs/protocol.md."""

    code = "protocol-error"
    title = "Message breaks the protocol"
    hint = "check that both sides run a released version; the sender's log names the message"


class MalformedMessageError(ProtocolError):
    """Bytes that are not a message of the expected kind in canonical form."""

    code = "malformed-message"
    title = "Message cannot be read"
    hint = "send it again; if the error persists, the sender's software does not follow docs/protocol.md"

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}", kind=kind)


class UnsupportedVersionError(ProtocolError):
    """The two sides share no wire version."""

    code = "unsupported-version"
    title = "No common protocol version"
    hint = "upgrade the older side"

    def __init__(self, ours: Sequence[int], theirs: Sequence[int], who_upgrades: str) -> None:
        detail = f"we speak wire versions {list(ours)}, the other side speaks {list(theirs)}"
        super().__init__(detail, ours=list(ours), theirs=list(theirs))
        self.hint = f"upgrade {who_upgrades}: it is the older side"


class LimitExceededError(ProtocolError):
    """A size, count or time above its limit in protocol/limits.py or in the analyst's settings."""

    code = "limit-exceeded"
    title = "Too large"
    hint = "send less, or ask the analyst to raise the limit in its settings"

    def __init__(self, what: str, limit: int, got: int | None = None) -> None:
        seen = "" if got is None else f", got {got}"
        super().__init__(f"{what}: at most {limit}{seen}", limit=limit)


class ShapeMismatchError(ProtocolError):
    """A matrix that does not have the shape that the signed terms prescribe."""

    code = "shape-mismatch"
    title = "Matrix has the wrong shape"
    hint = "run `odc prepare` again: it reads the latent dimension from the terms"

    def __init__(self, name: str, expected: Sequence[int | str], got: Sequence[int]) -> None:
        super().__init__(f"{name}: expected ({', '.join(map(str, expected))}), got {tuple(got)}", array=name)


class DtypeMismatchError(ProtocolError):
    """A matrix that does not have the number type that the signed terms prescribe."""

    code = "dtype-mismatch"
    title = "Matrix has the wrong number type"
    hint = "run `odc prepare` again: it reads the number type from the terms"

    def __init__(self, name: str, expected: str, got: str) -> None:
        super().__init__(f"{name}: expected {expected}, got {got}", array=name)


class NotFiniteError(ProtocolError):
    """A NaN or an infinity in a matrix."""

    code = "not-finite"
    title = "Matrix has a NaN or an infinity"
    hint = "check this row of your table: a missing value was not imputed, or a number overflows float16"

    def __init__(self, name: str, row: int) -> None:
        super().__init__(f"{name}: row {row} is not finite", array=name, row=row)


class LabelOutOfRangeError(ProtocolError):
    """A label that is not one that the terms allow."""

    code = "label-out-of-range"
    title = "Label outside what the terms allow"
    hint = "run `odc prepare` again: it encodes the labels as the terms say"

    def __init__(self, row: int, allowed: str) -> None:
        super().__init__(f"labels: row {row} is not {allowed}", row=row)


class DigestMismatchError(ProtocolError):
    """Bytes that do not have the digest that their sender signed."""

    code = "digest-mismatch"
    title = "Bytes were changed on the way"
    hint = "send again: what was checked is kept; if the error persists, something on the way changes bytes"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: the digest differs from the signed one")


class OffsetMismatchError(ProtocolError):
    """An append that does not start at the offset that the receiver has reached."""

    code = "offset-mismatch"
    title = "Upload continues at another offset"
    hint = "ask for the offset and continue from there; `odc contribute` does so by itself"

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(f"expected offset {expected}, got {got}", expected=expected)

    @property
    def expected(self) -> int:
        """The receiver's offset; raises `MalformedMessageError` if its problem document has none."""
        offset = self.context.get("expected")
        if not isinstance(offset, int) or offset < 0:
            raise MalformedMessageError("problem offset-mismatch", "names no expected offset")
        return offset


class TruncatedError(ProtocolError):
    """A message with fewer bytes than announced."""

    code = "truncated"
    title = "Message ends too early"
    hint = "continue the transfer: what has arrived is kept"

    def __init__(self, what: str, expected: int, got: int) -> None:
        super().__init__(f"{what}: expected {expected} bytes, got {got}", expected=expected)


class TrustError(OdcError):
    """A signature, certificate or permission that is not valid."""

    code = "trust-error"
    title = "Not trusted"
    hint = "ask the lead institution: it issues every certificate of the consortium"


class SignatureError(TrustError):
    """A signature that was not made by the holder of the certificate it names."""

    code = "bad-signature"
    title = "Signature does not hold"
    hint = "stop here, and compare the root fingerprint with the lead institution by telephone"


class CertificateRequiredError(TrustError):
    """A request without a client certificate where one is required."""

    code = "certificate-required"
    title = "Client certificate required"
    hint = "run `odc join INVITATION` first; a proxy that decrypts TLS removes the certificate"


class CertificateRefusedError(TrustError):
    """A certificate that does not chain to the consortium's root, has expired or is not valid yet."""

    code = "certificate-refused"
    title = "Certificate refused"
    hint = "check that invitation and server belong to the same consortium and that the clock is right"


class CertificateRevokedError(TrustError):
    """A certificate that the lead institution has revoked."""

    code = "certificate-revoked"
    title = "Certificate revoked"
    hint = "ask the lead institution why, and for a new invitation; the old key must not be used again"


class NotPermittedError(TrustError):
    """A known party that asks for something its role does not allow."""

    code = "not-permitted"
    title = "Not permitted"
    hint = "the terms say which party does what; `odc status` shows which party you are"


class InvitationError(TrustError):
    """An invitation that has expired, has been used, or is of another consortium."""

    code = "invitation-invalid"
    title = "Invitation cannot be used"
    hint = "ask the lead institution for a new one: `odc consortium invite PARTY`"


class SealBrokenError(TrustError):
    """A sealed anchor that cannot be opened, or that does not match its sender's commitment."""

    code = "seal-broken"
    title = "Sealed anchor does not open"
    hint = "tell the lead institution; if the error persists, the collaboration has to be cancelled"


class LedgerError(TrustError):
    """A ledger that was changed, shortened or rewritten, or that contradicts our own records."""

    code = "ledger-broken"
    title = "Ledger does not hold"
    hint = "keep the ledger file: it is evidence; ask the lead institution and other members for theirs"


class TokenRefusedError(TrustError):
    """An API token that is unknown, revoked or expired."""

    code = "token-refused"
    title = "API token refused"
    hint = "create a new one: `odc token create`, or `odc-analyst token create` for the analyst's operator"


class InputError(OdcError):
    """A file or an option, given by the person at the keyboard, that cannot be used."""

    code = "input-error"
    title = "Input cannot be used"
    hint = "correct it and run the command again; nothing was sent"


class UnreadableFileError(InputError):
    """A file that is missing, not readable, or not of the expected kind."""

    code = "unreadable-file"
    title = "File cannot be read"
    hint = "check the path and its permissions"

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")


class RoundError(OdcError):
    """A valid request that the collaboration does not allow in its present state."""

    code = "round-error"
    title = "Not now"
    hint = "`odc status`, or at the analyst `odc-analyst collaboration show ID`, says what it is waiting for"


class OutOfOrderError(RoundError):
    """An event that the present state does not allow."""

    code = "out-of-order"
    title = "Not in this state"

    def __init__(self, state: str, event: str, why: str = "") -> None:
        detail = f"the collaboration is {state}: '{event}' is not possible now"
        super().__init__(f"{detail}, because {why}" if why else detail, state=state)


class TermsNotAcceptedError(RoundError):
    """An institution that acts before it has signed the terms."""

    code = "terms-not-accepted"
    title = "Terms are not accepted"
    hint = "read them with `odc terms show` and sign with `odc terms accept`"

    def __init__(self, party: str) -> None:
        super().__init__(f"{party} has not signed the terms of this collaboration", party=party)


class TermsMismatchError(RoundError):
    """A message that was made for other terms."""

    code = "terms-mismatch"
    title = "Made for other terms"
    hint = "`odc terms show`, accept and prepare again; if that is no help, compare versions with the analyst"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: was made for other terms than those in force")


class ConsentMissingError(RoundError):
    """A step without the consent that it requires, from an institution or in the terms."""

    code = "consent-missing"
    title = "Consent is missing"
    hint = "the model shows projected rows to other members; consent with --accept-row-revealing-model"


class DifferentUplinkError(RoundError):
    """A second uplink of a party, with other bytes than the first."""

    code = "different-uplink"
    title = "Another uplink was already accepted"
    hint = "a party has one uplink, and the accepted one is final; a correction needs a new collaboration"

    def __init__(self, party: str) -> None:
        super().__init__(f"{party} already sent an uplink with other bytes", party=party)


class AlreadyExistsError(RoundError):
    """Something of this name that exists already, with other content."""

    code = "already-exists"
    title = "Exists already"
    hint = "choose another name, or use the existing one"


class UploadSupersededError(RoundError):
    """An append that a newer append of the same upload has replaced."""

    code = "upload-superseded"
    title = "A newer connection continues this upload"
    hint = "nothing to do if you reconnected; otherwise stop the other `odc contribute`"


class NotFoundError(RoundError):
    """Something that does not exist, or that this party may not know of."""

    code = "not-found"
    title = "Not found"
    hint = "check the id or name: `odc status`, or at the analyst `odc-analyst collaboration list`"


class RoundFailedError(RoundError):
    """A round that the analyst could not finish."""

    code = "round-failed"
    title = "The round failed at the analyst"
    hint = "nothing was lost: the analyst can resume it after reading the reason"


class StorageError(OdcError):
    """A disk or a database, here or at the analyst, that cannot be read or written now."""

    code = "storage-error"
    title = "Storage does not work"
    hint = "have the disk or the database there checked, then run the command again: it continues"


class StorageBusyError(StorageError):
    """A database that is locked, or away, for longer than a request waits."""

    code = "storage-busy"
    title = "Database is busy"
    hint = "run the command again in a minute; if it persists, find out what holds the database there"


class DiskFullError(StorageError):
    """A disk, here or at the analyst, without the space that is needed."""

    code = "disk-full"
    title = "Disk is full"
    hint = "have space freed on that disk, then run the command again: it continues"


class LostDataError(StorageError):
    """Arrays that the analyst has signed for and no longer has."""

    code = "data-lost"
    title = "Stored data is missing"
    hint = "the analyst's operator has to restore its data from a backup; run the command again then"
