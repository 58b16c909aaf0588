"""What goes wrong at an institution, beside the family both sides share.

::

    OdcError
     +- ConnectionFailedError      the analyst cannot be reached
     |   +- TlsFailedError         reached, but not believed
     +- NotJoinedError
     +- NotPreparedError
     +- NotForgottenError
     +- BusyError

    InputError
     +- ChoiceNeededError
     +- ConfirmationNeededError
     +- PassphraseError
     +- PassphraseNeededError
     +- TableError                 always a row or a column, never a value
         +- MissingColumnError
         +- EmptyFieldError
         +- NotANumberError
         +- OutOfRangeError
         +- UnknownLevelError
"""

from __future__ import annotations

from protocol.errors import InputError, OdcError
from runtime.terminal import LocalError


class ConnectionFailedError(LocalError, OdcError):
    """No connection to the analyst, or it broke and did not come back."""

    code = "connection-failed"
    title = "The analyst cannot be reached"
    exit_code = 7
    hint = "check address, firewall and proxy (HTTPS_PROXY); run the command again, it continues"

    was_answered: bool = False
    """Whether something answered, if only that it is busy: then TLS has succeeded in both directions."""


class TlsFailedError(ConnectionFailedError):
    """The server's certificate is not of this consortium, or ours was refused in the handshake."""

    code = "tls-failed"
    title = "TLS with the analyst failed"
    hint = "check the clock, and that no proxy or antivirus opens TLS to this address; else ask the lead"


class NotJoinedError(LocalError, OdcError):
    """No certificate in the state directory."""

    code = "not-joined"
    title = "This institution has not joined"
    exit_code = 5
    hint = "run `odc join INVITATION`, or point --home (ODC_HOME) to the right directory"


class NotPreparedError(LocalError, OdcError):
    """A step that needs an earlier one on this machine."""

    code = "not-prepared"
    title = "An earlier step is missing"
    exit_code = 6
    hint = "`odc status` says which step comes next"


class NotForgottenError(LocalError, OdcError):
    """The secret basis, or what leads to it, is or may be on this machine."""

    code = "not-forgotten"
    title = "Not forgotten"
    exit_code = 6
    hint = "run `odc forget`; look at files of unknown content yourself, and remove them"


class BusyError(LocalError, OdcError):
    """Two commands at once on one state directory."""

    code = "busy"
    title = "Another command is at work"
    exit_code = 6
    hint = "wait for it to end, or stop it; then run this one again"


class ChoiceNeededError(InputError):
    """More than one thing fits."""

    code = "choice-needed"
    title = "Which one?"
    hint = "name it with --collaboration ID"


class ConfirmationNeededError(InputError):
    """Something would be lost that nobody has given up in as many words."""

    code = "confirmation-needed"
    title = "Say so again"
    hint = "run the command again with --yes if that is meant"


class PassphraseError(InputError):
    """A passphrase that does not open the file."""

    code = "wrong-passphrase"
    title = "Passphrase does not open the file"
    hint = "try again; without it what it locks is lost: a member joins anew, a lead founds a new consortium"


class PassphraseNeededError(InputError):
    """A secret under a passphrase, and nobody to ask for it."""

    code = "passphrase-needed"
    title = "Passphrase is needed"
    hint = "name a file that holds it: `odc --passphrase-file FILE ...`, or ODC_PASSPHRASE_FILE"


class TableError(InputError):
    """A table that does not fit the schema of the terms."""

    code = "table-error"
    title = "Table does not fit the terms"
    hint = "`odc terms show` lists the columns; correct the table and run the command again"


class MissingColumnError(TableError):
    code = "missing-column"
    title = "Column is missing"

    def __init__(self, column: str) -> None:
        super().__init__(f"column '{column}' is not in the table")


class EmptyFieldError(TableError):
    code = "empty-field"
    title = "Field is empty"
    hint = "fill the field or drop the row; the terms give no imputation value for this column"

    def __init__(self, column: str, row: int) -> None:
        super().__init__(f"column '{column}', row {row}: the field is empty")


class NotANumberError(TableError):
    code = "not-a-number"
    title = "Not a number"

    def __init__(self, column: str, row: int) -> None:
        super().__init__(f"column '{column}', row {row}: expected a number")


class OutOfRangeError(TableError):
    code = "out-of-range"
    title = "Number out of range"
    hint = 'check the unit of the column; the terms may also say out_of_range = "clip"'

    def __init__(self, column: str, row: int, low: float, high: float) -> None:
        super().__init__(f"column '{column}', row {row}: expected a number from {low:g} to {high:g}")


class UnknownLevelError(TableError):
    code = "unknown-level"
    title = "Unknown level"

    def __init__(self, column: str, row: int, levels: int) -> None:
        super().__init__(f"column '{column}', row {row}: expected one of the {levels} levels of the terms")
