"""Errors of an institution's software, in addition to those that both sides share.

::

    OdcError
     +- ConnectionFailedError      the analyst cannot be reached
     |   +- TlsFailedError         it was reached, but TLS failed
     +- NotJoinedError
     +- NotPreparedError
     +- NotForgottenError
     +- BusyError
     +- ExportDiffersError         the exported file is wrong: a fault of ours
     +- MissingExtraError

    TrustError
     +- AnotherAnalystError        not the analyst whose key was seen first, or stands in the terms

    MalformedMessageError
     +- ModelRefusedError          the analyst's model is none of the terms, or asks for too much

    InputError
     +- ChoiceNeededError
     +- ConfirmationNeededError
     +- MaskedBeforeError          a second sum would have the same mask
     +- SignalLossError            the leading axes hold too little of the own score
     +- PolicyError                our policy or the terms do not allow it
     +- NothingKeptBackError       no rows to evaluate on
     +- PartsNeededError           others hold the other columns of these rows
     +- PartRefusedError           not a part of this round, or changed
     +- PassphraseError
     +- PassphraseNeededError
     +- TableError                 names a row or a column, never a value
         +- MissingColumnError
         +- FieldError             knows its rows
             +- EmptyFieldError
             +- RepeatedRowKeyError
             +- NotANumberError
             +- NotADateError
             +- OutOfRangeError
             |   +- LabelOutsideError
             +- NegativeTimeError
             +- UnknownLevelError
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from protocol.errors import InputError, MalformedMessageError, OdcError, TrustError
from runtime.names import near_name
from runtime.terminal import LocalError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAMED_LEVELS: Final = 10
"""Levels of the terms that an error names."""


class ConnectionFailedError(LocalError, OdcError):
    """A connection to the analyst that could not be made, or broke and could not be restored."""

    code = "connection-failed"
    title = "The analyst cannot be reached"
    exit_code = 7
    hint = "check address, firewall and proxy (HTTPS_PROXY), then run the command again: it continues"

    may_pass: bool = True
    """Whether trying again may help: not with a name that nobody has."""
    was_answered: bool = False
    """Whether something answered, if only that it is busy: then TLS has succeeded in both directions."""


class TlsFailedError(ConnectionFailedError):
    """A TLS handshake in which the server's certificate is not of this consortium, or ours was refused."""

    code = "tls-failed"
    title = "TLS with the analyst failed"
    hint = (
        "check the clock, and that no proxy or virus scanner decrypts TLS to this address; if neither is the"
        " cause, ask the lead institution"
    )


class AnotherAnalystError(LocalError, TrustError):
    """A message signed by an analyst of this consortium with another key than the one we know."""

    code = "another-analyst"
    title = "Another analyst than before"
    exit_code = 5
    hint = (
        "stop here. Ask the lead institution and the analyst's operator by telephone whether the analyst has"
        " a new key; if both say so: `odc trust-analyst FINGERPRINT`"
    )

    def __init__(self, what: str, found: str, expected: str) -> None:
        super().__init__(f"{what} was signed with the key {found}, the analyst's is {expected}")


class NotJoinedError(LocalError, OdcError):
    """A state directory without a certificate."""

    code = "not-joined"
    title = "This institution has not joined"
    exit_code = 5
    hint = "run `odc join INVITATION`, or name the right directory with --home (ODC_HOME)"


class NotPreparedError(LocalError, OdcError):
    """A step that needs an earlier step on this machine."""

    code = "not-prepared"
    title = "An earlier step is missing"
    exit_code = 6
    hint = "`odc status` says which step comes next"


class NotForgottenError(LocalError, OdcError):
    """A machine that holds, or may hold, the secret basis or something it can be computed from."""

    code = "not-forgotten"
    title = "Not forgotten"
    exit_code = 6
    hint = "run `odc forget`; inspect files of unknown content yourself and remove them"


class BusyError(LocalError, OdcError):
    """A state directory that another command is using."""

    code = "busy"
    title = "Another command is running"
    exit_code = 6
    hint = "wait for it to end or stop it, then run this one again"


class ChoiceNeededError(InputError):
    """A command that could be about more than one collaboration."""

    code = "choice-needed"
    title = "More than one collaboration"
    hint = "name one of them with --collaboration ID"


class ConfirmationNeededError(InputError):
    """A command that would send or erase something for good, and was not confirmed."""

    code = "confirmation-needed"
    title = "Confirmation is needed"
    hint = "run the command again with --yes to confirm"


class MaskedBeforeError(InputError):
    """Other sums under a mask that has covered some already."""

    code = "masked-before"
    title = "These sums have begun to leave"
    hint = "send what was prepared (`odc contribute`); another table needs another collaboration"

    def __init__(self) -> None:
        super().__init__(
            "our mask of this collaboration covers the sums that were prepared and has begun to leave with"
            " them: two sums under one mask would show their difference"
        )


class SignalLossError(InputError):
    """Less of what the rows say about the label lies along their leading axes than the terms ask for."""

    code = "signal-loss"
    title = "The leading axes say too little"
    hint = "ask the lead for terms with a larger latent_dim, or send anyway with --accept-signal-loss"

    def __init__(self, kept: float, least: float) -> None:
        super().__init__(
            f"the leading axes hold {kept:.2f} of what our rows say about the label (R squared), and the"
            f" terms ask for {least:g}. The rest is in our projection, but the other institutions may not"
            " share its directions: the collaboration may predict worse than a model of our own"
        )


class PolicyError(InputError):
    """Terms or an uplink that our policy does not allow, or an uplink that the terms do not allow."""

    code = "policy"
    title = "A policy does not allow it"
    hint = "ask the lead for other terms, or change our policy: `odc policy`"

    def __init__(self, violations: Sequence[str], would_pass: str | None = None) -> None:
        super().__init__("; ".join(violations))
        if would_pass:
            self.hint = f"ask the lead for {would_pass}, or change our policy: `odc policy`"


class NothingKeptBackError(InputError):
    """A table all of whose rows were sent, so that none is left to evaluate the collaboration on."""

    code = "nothing-kept-back"
    title = "No rows to evaluate on"
    hint = (
        "evaluate rows with labels that were not sent: `odc evaluate OTHER-TABLE`; `odc prepare --hold-out"
        " 0.2` keeps some back next time"
    )


class PartsNeededError(InputError):
    """A step that needs all columns of a row, where other institutions hold some of them."""

    code = "parts-needed"
    title = "Parts of others are needed"
    hint = (
        "ask each of them for the part of the same rows (`odc part TABLE --out FILE`), then run `odc predict"
        " TABLE --with FILE`, once for each file"
    )


class PartRefusedError(InputError):
    """A file that is no part of a prediction of this round by another member of the group."""

    code = "part-refused"
    title = "The part is refused"
    hint = (
        "ask for another with `odc part TABLE --out FILE`, made for this collaboration, and send it unchanged"
    )


class PassphraseError(InputError):
    """The passphrase is wrong, or the file is damaged."""

    code = "wrong-passphrase"
    title = "Passphrase does not open the file"
    hint = (
        "try again, nothing was changed; if it is lost for good, so are the secrets under it: a member joins"
        " again, and a lead creates a new consortium"
    )


class PassphraseNeededError(InputError):
    """A secret that is protected by a passphrase, and no terminal to ask for it."""

    code = "passphrase-needed"
    title = "Passphrase is needed"
    hint = "name a file that contains it: `odc --passphrase-file FILE ...`, or ODC_PASSPHRASE_FILE"


class ExportDiffersError(LocalError, OdcError):
    """An exported file that does not say what `predict` says."""

    code = "export-differs"
    title = "The exported file is wrong"
    hint = "nothing was written; use `odc predict`, and report this with the versions of onnx and onnxruntime"
    exit_code = 1

    def __init__(self, largest: float) -> None:
        super().__init__(f"the exported file differs from `odc predict` by {largest:.1e}")


class ModelRefusedError(LocalError, MalformedMessageError):
    """A model of the analyst that is none of the terms or of docs/protocol.md, or asks for too much."""

    code = "model-refused"
    title = "The analyst's model is refused"
    hint = "tell the lead institution: the analyst's software does not follow docs/protocol.md, or means harm"
    exit_code = 4

    def __init__(self, reason: str) -> None:
        super().__init__("the analyst's model", f"{reason}; nothing was predicted")
        self.reason = reason


class MissingExtraError(LocalError, OdcError):
    """A command whose libraries are an extra that is not installed."""

    code = "missing-extra"
    title = "A library is not installed"
    hint = "install the package with the extra that the error names"
    exit_code = 3

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs libraries that are not installed here: the extra [{extra}]")


class TableError(InputError):
    """The table does not fit the schema of the terms."""

    code = "table-error"
    title = "Table does not fit the terms"
    hint = "`odc terms show` lists the columns; correct the table and run the command again"


_NAMED_COLUMNS: Final = 8
"""A message names so many columns of a table at most."""


class MissingColumnError(TableError):
    code = "missing-column"
    title = "Column is missing"

    def __init__(self, column: str, there: Sequence[str] = ()) -> None:
        """``there`` are the columns of the table, where no terms say what it should have."""
        super().__init__(f"column '{column}' is not in the table")
        self.column = column
        if (near := near_name(column, there)) is not None:
            self.hint = f"the table has the column '{near}'"
        elif there:
            more = ", ..." if len(there) > _NAMED_COLUMNS else ""
            self.hint = f"the table has {', '.join(there[:_NAMED_COLUMNS])}{more}"


class FieldError(TableError):
    """A field of the table that does not fit. It names the column and the row, and never the value.

    Attributes
    ----------
    rows : (n,) ndarray of int
        All rows of the column that have it, counted from 1, as people count below the header.
    """

    code = "field-error"
    title = "Field does not fit the terms"

    def __init__(self, column: str, rows: NDArray[np.int64], what: str) -> None:
        super().__init__(f"column '{column}', data row {rows[0]}: {what}")
        self.column, self.rows, self.what = column, rows, what

    def in_whole_table(self, rows_before: int) -> FieldError:
        """Return the same error with the rows' numbers in the table that this part was read from."""
        return self._of(rows_before + self.rows)

    def in_rows(self, numbers: NDArray[np.int64]) -> FieldError:
        """Return the same error with the rows' numbers in the table that these rows were chosen from."""
        return self._of(numbers[self.rows - 1])

    def _of(self, rows: NDArray[np.int64]) -> FieldError:
        found = type(self).__new__(type(self))
        FieldError.__init__(found, self.column, rows, self.what)
        if "hint" in vars(self):  # the service tells one of its own from that of the class
            found.hint = self.hint
        return found


class EmptyFieldError(FieldError):
    code = "empty-field"
    title = "Field is empty"
    hint = "fill in the field or drop the row: the terms have no value to impute in this column"

    def __init__(self, column: str, rows: NDArray[np.int64]) -> None:
        super().__init__(column, rows, "the field is empty")


class RepeatedRowKeyError(FieldError):
    code = "repeated-row-key"
    title = "Two rows have the same key"
    hint = "each key names one row: drop the rows that are there again, or make one row of them"

    def __init__(self, column: str, rows: NDArray[np.int64]) -> None:
        more = f", and {len(rows) - 1:,} more rows are so" if len(rows) > 1 else ""
        super().__init__(column, rows, f"an earlier row has the same key{more}")


class NotANumberError(FieldError):
    code = "not-a-number"
    title = "Not a number"

    def __init__(self, column: str, rows: NDArray[np.int64]) -> None:
        super().__init__(column, rows, "expected a number")


class NotADateError(FieldError):
    code = "not-a-date"
    title = "Not a date"
    hint = "`odc terms show` says how the dates are written (iso is yyyy-mm-dd); a time of the day may follow"

    def __init__(self, column: str, rows: NDArray[np.int64], dates: str) -> None:
        super().__init__(column, rows, f"expected a date written as {dates}")


class OutOfRangeError(FieldError):
    code = "out-of-range"
    title = "Number out of range"
    hint = 'check the unit of the column; terms with out_of_range = "clip" would accept the number'

    def __init__(self, column: str, rows: NDArray[np.int64], low: float, high: float) -> None:
        super().__init__(column, rows, f"expected a number from {low:g} to {high:g}")


class LabelOutsideError(OutOfRangeError):
    code = "label-outside"
    title = "Label outside the range of the terms"
    hint = "check this row; if the number is right, ask the lead for terms with a wider range of the label"


class NegativeTimeError(FieldError):
    code = "negative-time"
    title = "Negative time"

    def __init__(self, column: str, rows: NDArray[np.int64]) -> None:
        super().__init__(column, rows, "expected a time, which is a number from 0 on")


class UnknownLevelError(FieldError):
    code = "unknown-level"
    title = "Unknown level"

    def __init__(self, column: str, rows: NDArray[np.int64], levels: Sequence[str]) -> None:
        self.levels = tuple(levels)
        names = ", ".join(levels[:_NAMED_LEVELS]) + (", ..." if len(levels) > _NAMED_LEVELS else "")
        super().__init__(column, rows, f"expected one of the {len(levels)} levels in the terms: {names}")
