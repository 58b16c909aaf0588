"""Seal a state directory under a passphrase, unseal it, or change the passphrase.

Each file is replaced whole, and files that are done already are skipped: a command that was killed is run
again and continues. Until then, reading a file that is sealed or not against expectation is an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from cryptography.hazmat.primitives.serialization import load_pem_private_key

from protocol.terms import Terms
from runtime.files import erase_abandoned, erase_half_written, has_locks, write_whole
from user_client.custody.home import Home, exclusive, is_encrypted, key_pem
from user_client.custody.passphrase import lock, require_long_enough, unlock
from user_client.custody.round_directory import MODEL_FILE, RoundDirectory
from user_client.custody.vault import is_sealed
from user_client.errors import BusyError

_OVERWRITTEN_AT_ONCE_BYTES: Final = 2**20


def protect(home: Home, passphrase: str) -> None:
    """Seal every secret in the directory under a passphrase, and every secret written from now on.

    In the lead's directory it must be the passphrase of the root key, which is sealed like the other secrets:
    one passphrase opens one directory.

    Raises
    ------
    PassphraseError
        If it is not the passphrase of the root key, or of a directory that is protected already.
    BusyError
        If another command is at work there.
    """
    with _alone(home):
        root_key = _root_key(home, passphrase)
        if home.is_protected():
            home.unlock(passphrase)
        else:
            require_long_enough(passphrase)
            home.make_storage_key(passphrase)
        _hide_models_with_rows(home)
        for path in home.secrets():
            data = path.read_bytes()
            if path == home.key_path:
                if not is_encrypted(data):
                    with _overwriting(path):
                        home.write_key(load_pem_private_key(data, None))
            elif not is_sealed(data):
                opened = data if root_key is None or path != home.root_key_path else root_key
                with _overwriting(path):
                    home.write_secret(path, opened)


@contextmanager
def _overwriting(path: Path) -> Iterator[None]:
    """Overwrite what a file was before a block has sealed or removed it, as `erase` does."""
    if sys.platform == "win32":  # there, an open file cannot be replaced
        yield
        return
    with path.open("r+b") as before:
        try:
            yield
        finally:  # also if it failed after the file was replaced
            _overwrite_replaced(before, path)


def _overwrite_replaced(before: BinaryIO, path: Path) -> None:
    """Overwrite an open file with zeros, unless it is still the one at its path."""
    now = os.fstat(before.fileno())
    if path.exists() and os.path.samestat(now, path.stat()):
        return
    left = now.st_size
    while left > 0:
        left -= before.write(bytes(min(left, _OVERWRITTEN_AT_ONCE_BYTES)))
    before.flush()
    os.fsync(before.fileno())


def _hide_models_with_rows(home: Home) -> None:
    """Store models as secrets that may contain rows of others, and that an earlier version took for none."""
    for path in home.path.glob(f"collaborations/*/{MODEL_FILE}"):
        directory = RoundDirectory(home, path.parent.name)
        terms = directory.find(Terms)
        if terms is not None and terms.is_row_revealing:
            with _overwriting(path):
                directory.write_model(path.read_bytes(), may_have_rows=True)


def _root_key(home: Home, passphrase: str) -> bytes | None:
    """Return the lead's root key if it is still locked by its passphrase alone."""
    locked = home.root_key_path.read_bytes() if home.root_key_path.exists() else None
    return None if locked is None or is_sealed(locked) else unlock(locked, passphrase)


def unprotect(home: Home, passphrase: str) -> None:
    """Store every secret unsealed again; the root key of a lead stays locked by the passphrase.

    Raises `PassphraseError`, or `BusyError` if another command is at work there.
    """
    with _alone(home):
        vault = home.unlock(passphrase)
        for path in home.secrets():
            data = path.read_bytes()
            if path == home.key_path:
                if is_encrypted(data):
                    write_whole(path, key_pem(load_pem_private_key(data, vault.key_password), None))
            elif is_sealed(data):
                opened = home.read_secret(path)
                write_whole(path, lock(opened, passphrase) if path == home.root_key_path else opened)
        home.storage_key_path.unlink()  # last: while it is there, the directory counts as protected


def change_passphrase(home: Home, passphrase: str, new: str) -> None:
    """Lock the storage key by another passphrase. The sealed files do not change.

    Raises `PassphraseError`, `InputError` if the new one is too short, or `BusyError`.
    """
    require_long_enough(new)
    with _alone(home):
        write_whole(home.storage_key_path, home.unlock(passphrase).lock(new))


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Keep other commands out, and erase the unfinished files that killed commands left."""
    with ExitStack() as stack:
        stack.enter_context(exclusive(home.path))
        for directory in home.path.glob("collaborations/*/"):
            stack.enter_context(exclusive(directory))
        for left in [*home.path.rglob(".*.part")]:
            _erase(home, left)
        yield


def _erase(home: Home, left: Path) -> None:
    """Erase an unfinished file; raises `BusyError` if a secret may be in it that is still written."""
    whole = left.with_name(left.name[1:].rsplit(".", 2)[0])
    erase_half_written(whole)
    if not left.exists() or sys.platform == "win32" or has_locks(home.path):
        return
    if not erase_abandoned(left) and home.is_secret(whole):
        busy = BusyError(f"another odc command may be writing {left.relative_to(home.path)}")
        busy.hint = "wait for it to end; if there is none, delete that file; then run this command again"
        raise busy
