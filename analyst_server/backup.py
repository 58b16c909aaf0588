"""A copy of everything the analyst has, made while its server runs, and put back into an empty directory.

A backup is a directory with the files of a data directory and a list of them with their digests. The list is
written last: without it nothing is restored.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from analyst_server.blobs import DirectoryBlobs, id_of, only_server
from analyst_server.installation import STORES_FILE, require_noted_stores
from analyst_server.services.own_arrays import elsewhere
from analyst_server.settings import Settings
from analyst_server.store import Records, require_known_copy, store_id_in
from protocol import __version__
from protocol.errors import InputError, StorageError, UnreadableFileError
from protocol.states import ENDED
from runtime.files import make_directory, read_bytes, write_whole
from runtime.storage import storage_error

LIST_FILE: Final = "backup.json"
_DATABASE: Final = "odc.sqlite"
_IDENTITY: Final = ("identity/key.pem", "identity/root.pem", "identity/certificate.pem")
_LAST: Final = _IDENTITY[-1]
"""Restored after everything else: without a certificate no command works."""
_ATTEMPTS: Final = 3
_DAMAGED_HINT: Final = (
    "this backup is damaged, or it was not copied whole to here: copy it again from where it is kept, or"
    " restore another one; nothing was restored"
)


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: int
    sha256: str


class _List(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    made_at: int
    version: str
    files: Mapping[str, _File]


@dataclass(frozen=True)
class Backup:
    """What a backup has in it."""

    directory: str
    made_at: int
    files: int
    bytes: int

    @classmethod
    def of(cls, directory: Path, listed: _List) -> Backup:
        size = sum(file.bytes for file in listed.files.values())
        return cls(str(directory), listed.made_at, len(listed.files), size)

    def as_json(self) -> dict[str, Any]:
        """Return this as ``--json`` shows it."""
        return asdict(self)


def back_up(settings: Settings, target: Path, *, now: int) -> Backup:
    """Copy records, blobs and identity into a new directory; a server may run meanwhile.

    The records are copied first: the blobs they name stay as they are until a collaboration ends or its model
    is judged. If that happens meanwhile, all is copied again.

    Raises
    ------
    InputError
        If the directory is not empty, there is no analyst, the records are not in SQLite, or they are of
        another version: that one copies them.
    StorageError, UnreadableFileError
        If something cannot be read.
    """
    if not (settings.data_dir / _LAST).exists():
        raise InputError(f"there is no analyst in {settings.data_dir}: name its --data-dir")
    require_noted_stores(settings)
    if not settings.database.startswith("sqlite:"):
        error = InputError("the records are in a database of their own, which this does not copy")
        error.hint = (
            "first the records, by its own tools (`pg_dump --format=custom --file records.dump`), then the"
            " data directory, by copying it: docs/operations.md, PostgreSQL"
        )
        raise error
    if settings.blob_url:
        error = InputError("the arrays are outside of the data directory, and this does not copy them")
        error.hint = "copy the records first, then the arrays by other tools: docs/operations.md, S3"
        raise error
    was_there = target.exists()
    _make_empty(target)
    with _whole_or_nothing(target, keep_directory=was_there):
        files = _consistent_copy(settings, target)
        for name in _IDENTITY:
            files[name] = _copy(settings.data_dir, target, name)
        listed = _List(made_at=now, version=__version__, files=files)
        write_whole(target / LIST_FILE, listed.model_dump_json(indent=1).encode())
    return Backup.of(target, listed)


@contextmanager
def _whole_or_nothing(target: Path, *, keep_directory: bool) -> Iterator[None]:
    """Erase what was written of a backup that cannot be finished, and name the disk that is to blame."""
    try:
        with _naming_the_disk(target):
            yield
    except BaseException as error:
        is_gone = _erase(target, keep_directory=keep_directory)
        if isinstance(error, StorageError) and str(target) in error.detail:
            what_is_left = f"{target} has a part of it, perhaps with the analyst's key: erase it"
            error.hint = "free space there, have the disk checked, or name a directory on another one; "
            error.hint += "nothing was left of this backup" if is_gone else what_is_left
        raise


def _erase(target: Path, *, keep_directory: bool) -> bool:
    """Erase what is in a directory, and itself unless it is to be kept; return whether nothing is left."""
    try:
        for path in list(target.iterdir()):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        if not keep_directory:
            target.rmdir()
    except OSError:
        return False
    return True


@contextmanager
def _naming_the_disk(target: Path) -> Iterator[None]:
    """Raise `StorageError` for a disk that fails: ``target``, unless the system names another place."""
    try:
        yield
    except OSError as error:
        found = storage_error(error, f"the disk of {error.filename or target}")
        if found is None:
            raise
        raise found from error


def _make_empty(target: Path) -> None:
    """Make the directory of a backup; raises `InputError` if something is there, or it cannot be made."""
    try:
        make_directory(target)
        if any(target.iterdir()):
            raise InputError(f"{target} is not empty: name a new directory for each backup")
    except OSError as error:
        raise InputError(
            f"cannot write to {target}: {error.strerror}; name a new directory for each backup"
        ) from None


def _consistent_copy(settings: Settings, target: Path) -> dict[str, _File]:
    """Copy the records, and the blobs that they name, with others that came since."""
    with _readable_records(settings, target) as records:
        return _consistent_copy_of(records, settings, target)


def _consistent_copy_of(records: Records, settings: Settings, target: Path) -> dict[str, _File]:
    database = target / _DATABASE
    try:
        records.migrate(upgrades=False)
        for _ in range(_ATTEMPTS):
            database.unlink(missing_ok=True)
            shutil.rmtree(target / "blobs", ignore_errors=True)
            records.copy_to(database)
            _require_own_arrays(settings, database)
            ended, unjudged = _ended_and_unjudged_of(database)
            files = _copy_blobs(settings, target)
            ended_now, unjudged_now = _ended_and_unjudged(records)
            if ended_now <= ended and unjudged <= unjudged_now:
                return files | {_DATABASE: _described(DirectoryBlobs(target).read(_DATABASE))}
    finally:
        records.dispose()
    raise InputError("blobs were erased while they were copied, again and again: try once more")


@contextmanager
def _readable_records(settings: Settings, target: Path) -> Iterator[Records]:
    """Yield the records to copy; of a directory that cannot be written, a working copy of them in ``target``.

    SQLite cannot read a write-ahead log without a file beside it, which a server makes as long as it runs.
    Raises `InputError` if one has started meanwhile.
    """
    source = settings.data_dir / _DATABASE
    shared = source.with_name(f"{_DATABASE}-shm")
    if settings.database_url or os.access(settings.data_dir, os.W_OK) or shared.exists():
        yield Records(settings.database)
        return
    working = target / "working-copy"
    make_directory(working)
    try:
        for name in (_DATABASE, f"{_DATABASE}-wal"):
            if (settings.data_dir / name).exists():
                shutil.copyfile(settings.data_dir / name, working / name)
        if shared.exists():
            raise InputError("a server has started while its records were copied: run the command again")
        yield Records(f"sqlite:///{working / _DATABASE}")
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _require_own_arrays(settings: Settings, database: Path) -> None:
    """Raise `InputError` if the arrays of these records are elsewhere: a directory may not be mounted."""
    known, blobs = store_id_in(database), DirectoryBlobs(settings.blob_dir)
    if known is not None and (found := id_of(blobs)) != known:
        told = elsewhere(blobs.place, known, found)
        error = InputError(told.detail)
        error.hint = told.hint
        raise error


def _ended_and_unjudged_of(database: Path) -> tuple[set[str], set[str]]:
    """Return the same of a copy: what happened since the copy was made is not in it."""
    copy = Records(f"sqlite:///{database}")
    try:
        return _ended_and_unjudged(copy)
    finally:
        copy.dispose()


def _ended_and_unjudged(records: Records) -> tuple[set[str], set[str]]:
    """Return whose blobs are erased, and who has some to judge a model with."""
    with records.begin() as unit:
        return {row.id for row in unit.in_states(ENDED)}, {row.id for row in unit.unjudged()}


def _copy_blobs(settings: Settings, target: Path) -> dict[str, _File]:
    files = {}
    for key in DirectoryBlobs(settings.blob_dir).whole_keys():
        name = f"blobs/{key}"
        try:
            files[name] = _copy(settings.data_dir, target, name)
        except FileNotFoundError:  # its collaboration has ended, or its computation
            continue
    return files


def restore(settings: Settings, source: Path) -> Backup:
    """Put a backup into a data directory that has no analyst in it; one that was cut off begins again.

    Nothing is written before every file of the backup was compared with its digest.

    Raises
    ------
    InputError
        If an analyst, or a server, is in the directory, another database is set, or the records of the
        backup are of a later version.
    UnreadableFileError
        If a file of the backup is missing or damaged.
    StorageError
        If a disk fails.
    """
    if settings.database_url:
        raise InputError("a backup has its records in SQLite: unset ODC_ANALYST_DATABASE_URL to restore it")
    if settings.blob_url:
        raise InputError("a backup has its arrays in files: unset ODC_ANALYST_BLOB_URL to restore it")
    listed = _listed(source)
    make_directory(settings.data_dir)
    if (settings.data_dir / _LAST).exists():
        raise InputError(f"{settings.data_dir} has an analyst in it: choose an empty --data-dir")
    for name, file in listed.files.items():
        _require_intact(source, name, file)
    require_known_copy(source / _DATABASE)
    with only_server(settings.data_dir), _naming_the_disk(settings.data_dir):
        for leftover in (STORES_FILE, f"{_DATABASE}-wal", f"{_DATABASE}-shm"):  # of other records
            (settings.data_dir / leftover).unlink(missing_ok=True)
        for name in sorted(listed.files, key=lambda name: (name == _LAST, name)):
            _copy(source, settings.data_dir, name)
    records = Records(settings.database)
    try:
        records.check()
    finally:
        records.dispose()
    return Backup.of(source, listed)


def _listed(source: Path) -> _List:
    path = source / LIST_FILE
    if not path.exists():
        error = UnreadableFileError(path, "there is no such file, so this is no backup, or not a whole one")
        error.hint = "name a directory that `odc-analyst backup` has written to its end"
        raise error
    try:
        listed = _List.model_validate_json(read_bytes(path))
    except ValidationError:
        raise _damaged(path, "it is no list of a backup") from None
    except UnreadableFileError as error:
        error.hint = _DAMAGED_HINT
        raise
    for name in listed.files:
        place = PurePosixPath(name)
        is_known = name in (_DATABASE, *_IDENTITY) or place.parts[0] == "blobs"
        if not is_known or place.is_absolute() or ".." in place.parts:
            raise _damaged(path, f"it names a file that is none of an analyst: {name}")
    if missing := {_DATABASE, *_IDENTITY} - set(listed.files):
        raise _damaged(path, f"it lacks {', '.join(sorted(missing))}")
    return listed


def _require_intact(source: Path, name: str, file: _File) -> None:
    try:
        found = _described(DirectoryBlobs(source).read(name))
    except FileNotFoundError:
        raise _damaged(source / name, "the backup lacks it") from None
    except OSError as error:  # a directory, for example
        raise _damaged(source / name, error.strerror or type(error).__name__) from None
    if found != file:
        raise _damaged(source / name, "it is not what was backed up")


def _damaged(path: Path, reason: str) -> UnreadableFileError:
    error = UnreadableFileError(path, reason)
    error.hint = _DAMAGED_HINT
    return error


def _copy(source: Path, target: Path, name: str) -> _File:
    """Copy a file durably and return what it is; the system reads its pages, so none is held in memory."""
    data = DirectoryBlobs(source).read(name)
    write_whole(target / name, data)
    return _described(data)


def _described(data: memoryview) -> _File:
    return _File(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
