"""What the commands share: options, the session, and printing."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import click

from protocol.answers import Status
from protocol.errors import InputError
from protocol.texts import visible
from runtime.command_line import PATH
from runtime.files import read_text, write_whole
from runtime.logs import Lines, set_up
from runtime.terminal import printable, shown
from user_client.custody.passphrase import MIN_CHARS
from user_client.errors import ConfirmationNeededError, PassphraseNeededError
from user_client.sdk.membership import renew_in_time
from user_client.sdk.session import Session
from user_client.transport import ATTEMPTS

if TYPE_CHECKING:
    from user_client.sdk.round import Round  # which loads the whole SDK


@dataclass
class Options:
    """The options before the command, and the passphrase once it is known."""

    home: Path
    passphrase_file: Path | None = None
    _passphrase: str | None = field(default=None, repr=False)

    def passphrase(self, file: Path | None = None, *, is_new: bool = False) -> str:
        """Return the passphrase of this directory: from a file, or from the person at the terminal.

        At the lead it is also the passphrase of the root key. It is asked for once.
        """
        if self._passphrase is None:
            named = file or self.passphrase_file or path_in_environment("ODC_PASSPHRASE_FILE")
            self._passphrase = ask_passphrase("Passphrase", named, is_new=is_new)
        return self._passphrase


def path_in_environment(name: str) -> Path | None:
    """Return the path in an environment variable, or None if it is empty or not set."""
    return Path(os.environ[name]) if os.environ.get(name) else None


def ask_passphrase(what: str, file: Path | None, *, is_new: bool) -> str:
    """Return a passphrase from a file or a prompt; raises `PassphraseNeededError` if there is neither."""
    if file is not None:
        return read_text(file).strip()
    if not can_ask():
        raise PassphraseNeededError(f"{what}: no file is named, and there is no terminal to ask at")
    what += f", of {MIN_CHARS} characters or more" if is_new else ""
    return str(click.prompt(what, hide_input=True, confirmation_prompt=is_new, err=True))


def can_ask() -> bool:
    """Whether there is a person at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def declined(what: str) -> ConfirmationNeededError:
    """Return the error of a person who was asked and has said no; ``what`` did not happen."""
    error = ConfirmationNeededError(what)
    error.hint = "you have answered no; run the command again when you have decided otherwise"
    return error


def is_agreed(question: str) -> bool:
    """Return whether a person at a terminal agrees; what was typed before the question is no answer to it."""
    if sys.platform != "win32" and can_ask():
        import termios  # which Windows does not have

        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
    return click.confirm(question, err=True)


def options_of(context: click.Context) -> Options:
    """Return the options before the command."""
    return context.ensure_object(Options)


@contextmanager
def open_session(
    context: click.Context, *, attempts: int = ATTEMPTS, timeout_s: float | None = None
) -> Iterator[Session]:
    """Yield the session of the institution the command was started for: see `Session`.

    After a command that connected to the analyst, our certificate is renewed if it ends soon.
    """
    options = options_of(context)
    with Session(
        options.home, passphrase=options.passphrase, attempts=attempts, timeout_s=timeout_s
    ) as session:
        yield session
        if session.is_connected():
            renew_in_time(session)


def round_of(
    session: Session,
    collaboration: str | None,
    *,
    as_json: bool,
    running: bool = False,
    accepted: bool = False,
    received: bool = False,
    listed: Sequence[Status] = (),
) -> Round:
    """Return the collaboration that is meant, and tell people which one that is: see `Session.round`."""
    chosen = session.round(
        collaboration, running=running, accepted=accepted, received=received, listed=listed
    )
    if not as_json:
        click.echo(printable(chosen.name), err=True)
    return chosen


def show(as_json: bool, value: Mapping[str, object], people: Callable[[], str]) -> None:
    """Print JSON for machines or a text for people."""
    click.echo(shown(value, as_json=as_json, people=lambda _: visible(people())))


def set_up_logging(verbose: bool) -> None:
    """Log warnings to the terminal, or all that happens."""
    form = "%(asctime)s %(name)s: %(message)s" if verbose else "odc: %(message)s"
    set_up(Lines(form), logging.INFO if verbose else logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)


collaboration_option = click.option(
    "--collaboration", "-c", help="id of the collaboration, or its first 4 digits or more"
)
force_option = click.option("--force", is_flag=True, help="overwrite the file if it exists")
passphrase_file_option = click.option(
    "--passphrase-file",
    type=PATH,
    help="file with the passphrase; asked for otherwise [env: ODC_PASSPHRASE_FILE]",
)


def refuse_to_overwrite(path: Path, *, force: bool, option: str = "--out") -> None:
    """Raise `InputError` if the file exists and may not be overwritten."""
    if str(path) != "-" and path.exists() and not force:  # that is the output of the program
        raise InputError(f"{path} exists; name another with {option}, or overwrite it with --force")


def require_writable(path: Path) -> None:
    """Raise `InputError` unless a file can be written there; missing directories on the way will be made.

    For a command that changes something before it writes what it has made.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        folder = path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        with TemporaryFile(dir=folder):  # permissions alone do not tell
            pass
    except OSError as error:
        raise _unwritable(path, error) from None


def write_output(path: Path, data: bytes) -> None:
    """Write a file a person named; raises `InputError`."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_private(path: Path, data: bytes) -> None:
    """Write a file a person named so that only they can read it; raises `InputError`."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {error.strerror}")
