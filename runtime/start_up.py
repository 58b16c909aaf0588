"""The first lines of both commands: load the libraries, run, and end with the right exit code."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder

from protocol.errors import OdcError
from runtime.memory import is_out_of_memory
from runtime.storage import storage_error
from runtime.terminal import exit_code, for_machines, for_terminal

log = logging.getLogger(__name__)


@contextmanager
def loading() -> Iterator[None]:
    """Import the libraries that a program needs for as long as it runs.

    Modules are never freed, so searching them for garbage would cost a tenth of the start-up time for
    nothing. A pydantic plug-in would see every message and every secret that is validated, and
    searching for one opens the metadata of each installed package: plug-ins are off unless the
    environment turns them on.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # a table is read in parts so that little of it is held, and only the C library gives back what was held
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # threads of OpenBLAS spin while they wait for work: 0.06 s of processor time at the start alone
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _LeftOut(MetaPathFinder):
    """Finds one library nowhere."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002  # of Python
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is left out of this program", name=fullname)


def leave_out(name: str) -> None:
    """Let every import of a library fail in this process, where other libraries try one and do without."""
    sys.meta_path.insert(0, _LeftOut(name))


def start(program: str, load: Callable[[], Callable[..., object]], *, extra: str) -> None:
    """Run a command line program; its errors end the process with two lines and their exit code.

    Parameters
    ----------
    program : str
        The command's name, as a person types it.
    load : callable
        Imports the program and returns its Click command. It is called in here because the first
        thing that can go wrong is an import.
    extra : str
        The extra of the distribution that brings the program's libraries.
    """
    try:
        with loading():
            application = load()
        _run(program, application)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{program}: error: the library {error.name} is not installed here\n")
        sys.stderr.write(f"{program}: hint: install the package with its extra: [{extra}]\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: stopped; run it again, and it continues\n")
        sys.exit(130)


def as_whole_process(main: Callable[[], None]) -> None:
    """Run a program that is all this process does, and end with its exit code whatever native threads do.

    Those of Arrow may still be at work for an instant after a table was read. A process that frees the
    objects of its libraries meanwhile is aborted after everything has succeeded
    (https://github.com/apache/arrow/issues/34314), so this one frees none.
    """
    code = 0

    def end() -> None:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
                stream.flush()
        os._exit(code)

    atexit.register(end)  # the first of all, so that everything else is done before
    try:
        main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    except BaseException:
        code = 1
        raise


def _run(program: str, application: Callable[..., object]) -> None:
    from runtime.command_line import run  # which needs Click, that an extra brings

    try:
        run(program, application)
    except Exception as error:  # noqa: BLE001  # `as_ours` logs what is not ours
        known = as_ours(error)
    said = for_machines(known) if "--json" in sys.argv[1:] else for_terminal(program, known)
    sys.stderr.write(said + "\n")
    sys.exit(exit_code(known))


def as_ours(error: Exception) -> OdcError:
    """Return what to tell a person of an error; of one that is not ours, only its kind."""
    if isinstance(error, OdcError):
        return error
    found = _no_memory() if is_out_of_memory(error) else _disk_that_failed(error)
    if found is None:  # a fault of ours: its text may quote a table
        log.info("unexpected error", exc_info=error)
        found = OdcError(f"unexpected {type(error).__name__}")
    return found


def _no_memory() -> OdcError:
    error = OdcError("this machine, or what this program may take of it, has too little memory for that")
    error.hint = "end other programs, raise the limit of memory if there is one, or use a machine with more"
    return error


def _disk_that_failed(error: Exception) -> OdcError | None:
    """Return what to tell of a disk of this machine, if one is to blame."""
    if not isinstance(error, OSError):
        return None
    found = storage_error(error, f"the disk of {error.filename}" if error.filename else "the disk")
    if found is not None and isinstance(error, PermissionError):
        found.hint = "let the user who runs this command read and write there, or name another place"
    return found
