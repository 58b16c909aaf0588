"""The error family both sides share.

One class, one slug, three faces: typed in Python, RFC 9457 problem details on the wire, a sentence
with its fix at the terminal::

    OdcError
     +- ProtocolError                    bytes or messages that break the specification
     |   +- MalformedMessageError
     |   +- UnsupportedVersionError
     |   +- LimitExceededError
     |   +- ShapeMismatchError
     |   +- DtypeMismatchError
     |   +- NotFiniteError
     |   +- LabelOutOfRangeError
     |   +- DigestMismatchError
     |   +- OffsetMismatchError
     |   +- TruncatedError
     +- TrustError                       who says so, and may they
     |   +- SignatureError
     |   +- CertificateRequiredError
     |   +- CertificateRefusedError
     |   +- CertificateRevokedError
     |   +- NotPermittedError
     |   +- InvitationError
     |   +- SealBrokenError
     |   +- LedgerError
     |   +- TokenRefusedError
     +- InputError                       a file or option of the person at the keyboard
     |   +- UnreadableFileError
     +- RoundError                       the right message at the wrong time
         +- OutOfOrderError
         +- TermsNotAcceptedError
         +- TermsMismatchError
         +- ConsentMissingError
         +- DifferentUplinkError
         +- AlreadyExistsError
         +- UploadSupersededError
         +- NotFoundError
         +- RoundFailedError

A message names what was expected and what came; it never carries a value from a table, a key or a
matrix, because it may end in a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

PROBLEM_TYPE_PREFIX = "/problems/"


class OdcError(Exception):
    """Base of every error that crosses a border of this project.

    Attributes
    ----------
    detail : str
        What was expected and what came, for this occurrence.
    context : dict
        Public extension members of the problem document; JSON values only.
    """

    code: ClassVar[str] = "error"
    title: ClassVar[str] = "Something went wrong"
    hint: str = "run the command again with --verbose and read the last lines"

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
        """Return an instance from a received problem, past the constructor of the subclass."""
        error = cls.__new__(cls)
        OdcError.__init__(error, detail, **context)
        error.hint = hint
        return error


class ProtocolError(OdcError):
    """Bytes or a message that break docs/protocol.md."""

    code = "protocol-error"
    title = "Message breaks the protocol"
    hint = "check that both sides run a released version; the sender's log names the message"


class MalformedMessageError(ProtocolError):
    """Bytes that are not a message of the expected kind in canonical form."""

    code = "malformed-message"
    title = "Message cannot be read"
    hint = "send it again; if it stays, the sender's software differs from docs/protocol.md"

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}", kind=kind)


class UnsupportedVersionError(ProtocolError):
    """The two sides share no wire version."""

    code = "unsupported-version"
    title = "No common protocol version"

    def __init__(self, ours: Sequence[int], theirs: Sequence[int], who_upgrades: str) -> None:
        super().__init__(
            f"we speak wire versions {list(ours)}, the other side speaks {list(theirs)}",
            ours=list(ours),
            theirs=list(theirs),
        )
        self.hint = f"upgrade {who_upgrades}: it is the older side"

    hint = "upgrade the older side"


class LimitExceededError(ProtocolError):
    """A size, count or time over its number in protocol/limits.py or the analyst's settings."""

    code = "limit-exceeded"
    title = "Too large"
    hint = "send less, or ask the analyst to raise the limit in its settings"

    def __init__(self, what: str, limit: int, got: int | None = None) -> None:
        seen = "" if got is None else f", got {got}"
        super().__init__(f"{what}: at most {limit}{seen}", limit=limit)


class ShapeMismatchError(ProtocolError):
    """A matrix does not have the shape the signed terms promise."""

    code = "shape-mismatch"
    title = "Matrix has the wrong shape"
    hint = "run `odc prepare` again: it reads the latent dimension from the terms"

    def __init__(self, name: str, expected: Sequence[int | str], got: Sequence[int]) -> None:
        wanted = "(" + ", ".join(map(str, expected)) + ")"
        super().__init__(f"{name}: expected {wanted}, got {tuple(got)}", array=name)


class DtypeMismatchError(ProtocolError):
    """A matrix is not of the number type the signed terms promise."""

    code = "dtype-mismatch"
    title = "Matrix has the wrong number type"
    hint = "run `odc prepare` again: it reads the number type from the terms"

    def __init__(self, name: str, expected: str, got: str) -> None:
        super().__init__(f"{name}: expected {expected}, got {got}", array=name)


class NotFiniteError(ProtocolError):
    """A NaN or an infinity in a matrix."""

    code = "not-finite"
    title = "Matrix has a NaN or an infinity"
    hint = "find the row in your table: a missing value without imputation, or an overflow in float16"

    def __init__(self, name: str, row: int) -> None:
        super().__init__(f"{name}: row {row} is not finite", array=name, row=row)


class LabelOutOfRangeError(ProtocolError):
    """A label that numbers no class of the terms."""

    code = "label-out-of-range"
    title = "Label outside the classes of the terms"
    hint = "run `odc prepare` again: it numbers the labels by the classes in the terms"

    def __init__(self, row: int, classes: int) -> None:
        super().__init__(f"labels: row {row} is not one of {classes} classes", row=row)


class DigestMismatchError(ProtocolError):
    """Bytes that do not have the digest their sender signed."""

    code = "digest-mismatch"
    title = "Bytes were changed on the way"
    hint = "send again: what was already checked is kept; if it stays, something on the line rewrites bytes"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: the digest differs from the signed one")


class OffsetMismatchError(ProtocolError):
    """An append that does not start where the receiver stands."""

    code = "offset-mismatch"
    title = "Upload continues at another offset"
    hint = "ask for the offset and continue from there; `odc contribute` does so by itself"

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(f"expected offset {expected}, got {got}", expected=expected)

    @property
    def expected(self) -> int:
        """Where the receiver stands; raises `MalformedMessageError` if its problem does not say so."""
        offset = self.context.get("expected")
        if not isinstance(offset, int) or offset < 0:
            raise MalformedMessageError("problem offset-mismatch", "names no expected offset")
        return offset


class TruncatedError(ProtocolError):
    """Fewer bytes than the manifest promises."""

    code = "truncated"
    title = "Message ends too early"
    hint = "continue the transfer: what has arrived is kept"

    def __init__(self, what: str, expected: int, got: int) -> None:
        super().__init__(f"{what}: expected {expected} bytes, got {got}", expected=expected)


class TrustError(OdcError):
    """A signature, certificate or permission that does not hold."""

    code = "trust-error"
    title = "Not trusted"
    hint = "ask the lead institution: it issues every certificate of the consortium"


class SignatureError(TrustError):
    """A signature that was not made by the holder of the certificate it names."""

    code = "bad-signature"
    title = "Signature does not hold"
    hint = "do not go on; compare the root fingerprint with the lead institution by telephone"


class CertificateRequiredError(TrustError):
    """A request without a client certificate where one is required."""

    code = "certificate-required"
    title = "Client certificate required"
    hint = "run `odc join INVITATION` first; a proxy that opens TLS removes the certificate"


class CertificateRefusedError(TrustError):
    """A certificate that does not lead to the consortium's root, or is out of its time."""

    code = "certificate-refused"
    title = "Certificate refused"
    hint = "check that invitation and server belong to the same consortium and that the clock is right"


class CertificateRevokedError(TrustError):
    """A certificate that the lead institution has taken back."""

    code = "certificate-revoked"
    title = "Certificate revoked"
    hint = (
        "ask the lead institution why, and for a new invitation; whoever held the key must not use it again"
    )


class NotPermittedError(TrustError):
    """A known party asks for what its role does not allow."""

    code = "not-permitted"
    title = "Not permitted"
    hint = "the terms say which party does what; `odc status` says who you are"


class InvitationError(TrustError):
    """An invitation that is expired, used, or not of this consortium."""

    code = "invitation-invalid"
    title = "Invitation cannot be used"
    hint = "ask the lead institution for a new one: `odc consortium invite PARTY`"


class SealBrokenError(TrustError):
    """A sealed anchor that does not open, or not to what its sender committed to."""

    code = "seal-broken"
    title = "Sealed anchor does not open"
    hint = "tell the lead institution; if it stays, the analyst cancels this collaboration and starts another"


class LedgerError(TrustError):
    """A ledger that was changed, shortened or rewritten, or that says other than we know."""

    code = "ledger-broken"
    title = "Ledger does not hold"
    hint = "keep the ledger file: it is evidence; ask the lead institution and other members for theirs"


class TokenRefusedError(TrustError):
    """An API token that is unknown, revoked, or past its end."""

    code = "token-refused"
    title = "API token refused"
    hint = "make a new one: `odc token create`, or `odc-analyst token create` for the analyst's operator"


class InputError(OdcError):
    """Something the person at the keyboard gave cannot be used."""

    code = "input-error"
    title = "Input cannot be used"
    hint = "correct it and run the command again; nothing was sent"


class UnreadableFileError(InputError):
    """A file that is missing, not readable, or of another kind."""

    code = "unreadable-file"
    title = "File cannot be read"
    hint = "check the path and its permissions"

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")


class RoundError(OdcError):
    """A request that is right in itself and wrong for the state of the collaboration."""

    code = "round-error"
    title = "Not now"
    hint = "`odc status` says what the collaboration waits for"


class OutOfOrderError(RoundError):
    """An event that the present state does not take."""

    code = "out-of-order"
    title = "Not in this state"

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"the collaboration is {state}; it cannot take '{event}' now", state=state)


class TermsNotAcceptedError(RoundError):
    """An institution acts before it signed the terms."""

    code = "terms-not-accepted"
    title = "Terms are not accepted"
    hint = "read them with `odc terms show` and sign with `odc terms accept`"

    def __init__(self, party: str) -> None:
        super().__init__(f"{party} has not signed the terms of this collaboration", party=party)


class TermsMismatchError(RoundError):
    """A message that was made for other terms."""

    code = "terms-mismatch"
    title = "Made for other terms"
    hint = "fetch the terms again with `odc terms show`, accept them and prepare again"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: was made for other terms than the ones in force")


class ConsentMissingError(RoundError):
    """Row-revealing terms without the word of consent they ask for."""

    code = "consent-missing"
    title = "Consent is missing"
    hint = "the model shows other members projected rows; consent with --accept-row-revealing-model"


class DifferentUplinkError(RoundError):
    """A second uplink of one party with other bytes than the first."""

    code = "different-uplink"
    title = "Another uplink was already accepted"
    hint = "one uplink per party: the accepted one stands; a correction needs a new collaboration"

    def __init__(self, party: str) -> None:
        super().__init__(f"{party} already sent an uplink with other bytes", party=party)


class AlreadyExistsError(RoundError):
    """A thing of this name exists with other content."""

    code = "already-exists"
    title = "Exists already"
    hint = "choose another name, or use what exists"


class UploadSupersededError(RoundError):
    """An append that a newer append of the same upload has replaced."""

    code = "upload-superseded"
    title = "A newer connection continues this upload"
    hint = "nothing to do if you reconnected; otherwise stop the other `odc contribute`"


class NotFoundError(RoundError):
    """No such thing, or none that this party may know of."""

    code = "not-found"
    title = "Not found"
    hint = "check the id; `odc status` lists the collaborations you are a member of"


class RoundFailedError(RoundError):
    """The analyst could not finish the round."""

    code = "round-failed"
    title = "The round failed at the analyst"
    hint = "nothing was lost: the analyst can resume it after reading the reason"


def _subclasses(cls: type[OdcError]) -> Iterator[type[OdcError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def all_errors() -> list[type[OdcError]]:
    """Every class of the family that is loaded, the client's and server's own included."""
    return list(_subclasses(OdcError))


def from_problem(problem: dict[str, Any]) -> OdcError:
    """Rebuild the error behind a received problem document; an unknown type becomes `OdcError`."""
    kind = str(problem.get("type", "")).removeprefix(PROBLEM_TYPE_PREFIX)
    cls = next((cls for cls in all_errors() if cls.code == kind), OdcError)
    known = {"type", "title", "detail", "hint", "status", "instance"}
    context = {str(key): value for key, value in problem.items() if key not in known}
    detail = str(problem.get("detail") or problem.get("title") or "no detail was sent")
    return cls.rebuilt(detail, str(problem.get("hint") or cls.hint), context)
