"""The errors of an institution, besides the family that both sides share.

::

    OdcError
     +- ConnectionFailedError      the analyst cannot be reached
     |   +- TlsFailedError         it was reached, but one side refused the other's certificate
     +- NotJoinedError
     +- NotPreparedError
     +- NotForgottenError
     +- BusyError

    InputError
     +- ChoiceNeededError
     +- ConfirmationNeededError
     +- PassphraseError
     +- PassphraseNeededError
     +- TableError                 names a row or a column, never a value
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
    """The connection to the analyst could not be opened, or broke and could not be opened again."""

    code = "connection-failed"
    title = "The analyst cannot be reached"
    exit_code = 7
    hint = "check address, firewall and proxy (HTTPS_PROXY); run the command again, it continues"


class TlsFailedError(ConnectionFailedError):
    """The server's certificate is not of this consortium, or the server refused ours."""

    code = "tls-failed"
    title = "TLS with the analyst failed"
    hint = "check the clock, and that no proxy or antivirus intercepts TLS to this address; or ask the lead"


class NotJoinedError(LocalError, OdcError):
    """The state directory has no certificate."""

    code = "not-joined"
    title = "This institution has not joined"
    exit_code = 5
    hint = "run `odc join INVITATION`, or point --home (ODC_HOME) to the right directory"


class NotPreparedError(LocalError, OdcError):
    """This step needs the result of an earlier step on this machine."""

    code = "not-prepared"
    title = "An earlier step is missing"
    exit_code = 6
    hint = "`odc status` says which step comes next"


class NotForgottenError(LocalError, OdcError):
    """The secret basis, or something that leads to it, is or may be on this machine."""

    code = "not-forgotten"
    title = "Not forgotten"
    exit_code = 6
    hint = "run `odc forget`; look at files of unknown content and remove them yourself"


class BusyError(LocalError, OdcError):
    """Another command works on the same round or state directory."""

    code = "busy"
    title = "Another command is at work"
    exit_code = 6
    hint = "wait for it to end, or stop it; then run this command again"


class ChoiceNeededError(InputError):
    """There are several collaborations, and the command does not name one."""

    code = "choice-needed"
    title = "Several collaborations"
    hint = "name it with --collaboration ID"


class ConfirmationNeededError(InputError):
    """The command would destroy something, and was not told to."""

    code = "confirmation-needed"
    title = "Confirmation is needed"
    hint = "run the command again with --yes if you want that"


class PassphraseError(InputError):
    """The passphrase is wrong, or the file is damaged."""

    code = "wrong-passphrase"
    title = "Passphrase does not open the file"
    hint = (
        "try again; without the passphrase a member must join again, and a lead must found a new consortium"
    )


class PassphraseNeededError(InputError):
    """A secret is sealed under a passphrase, and there is nobody to ask for it."""

    code = "passphrase-needed"
    title = "Passphrase is needed"
    hint = "name a file that contains it: `odc --passphrase-file FILE ...`, or ODC_PASSPHRASE_FILE"


class TableError(InputError):
    """The table does not fit the schema of the terms."""

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
