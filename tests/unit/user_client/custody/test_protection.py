"""A state directory under a passphrase, and commands on it that are killed anywhere."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key

from protocol.errors import InputError, UnreadableFileError
from runtime.files import write_whole, writing_whole
from tests.harness.certificates import NOW
from user_client.custody import home as home_module
from user_client.custody import protection, vault
from user_client.custody.authority import Authority
from user_client.custody.home import Home, exclusive
from user_client.custody.passphrase import lock
from user_client.errors import BusyError, PassphraseError, PassphraseNeededError

PASSPHRASE, ANOTHER = "correct horse battery", "a new passphrase"
ROUND = "collaborations/" + "0" * 32
PLAIN = {
    "invitation.json": b'{"join_secret": "..."}',
    "consortium/invitations/1.json": b"invitation",
    f"{ROUND}/sealing.key": b"sealing key",
    f"{ROUND}/basis.npy": b"basis" * 300_000,
}


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(data: bytes, passphrase: str) -> bytes:
        return lock(data, passphrase, log2_n=4)

    monkeypatch.setattr(vault, "lock", quick)
    monkeypatch.setattr(protection, "lock", quick)


@pytest.fixture
def authority() -> Authority:
    return Authority.create("Heart", now=NOW)


@pytest.fixture
def home(tmp_path: Path, authority: Authority) -> Home:
    """A lead's directory with every kind of secret, open."""
    made = Home(tmp_path / "state")
    made.make_key()
    for name, data in PLAIN.items():
        made.write_secret(made.path / name, data)
    write_whole(made.root_key_path, lock(authority.private_bytes(), PASSPHRASE, log2_n=4))
    return made


def opened(home: Home, passphrase: str = PASSPHRASE) -> Home:
    return Home(home.path, lambda: passphrase)


def contents(home: Home) -> dict[str, bytes]:
    return {name: home.read_secret(home.path / name) for name in PLAIN}


def everything(home: Home) -> None:
    contents(home)
    home.key()
    home.read_secret(home.root_key_path)


def all_bytes(home: Home) -> bytes:
    return b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())


def test_nothing_secret_is_left_to_be_read(home: Home, authority: Authority) -> None:
    key, pem = home.key(), home.key_path.read_bytes()
    protection.protect(home, PASSPHRASE)
    stolen = all_bytes(home)
    assert not any(data[:20] in stolen for data in [*PLAIN.values(), authority.private_bytes()[30:]])
    assert pem.split(b"\n")[1] not in stolen
    found = opened(home)
    assert contents(found) == PLAIN
    assert found.key().private_numbers() == key.private_numbers()
    assert found.read_secret(found.root_key_path) == authority.private_bytes()


def test_what_comes_later_is_sealed_too(tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    protection.protect(home, PASSPHRASE)
    key = home.make_key()
    home.write_secret(home.path / f"{ROUND}/sealing.key", b"sealing key")
    assert b"sealing key" not in all_bytes(home)
    assert b"ENCRYPTED" in home.key_path.read_bytes()
    assert opened(home).key().private_numbers() == key.private_numbers()


def test_the_passphrase_is_asked_for_once_and_only_for_a_secret(home: Home) -> None:
    asked: list[None] = []
    assert contents(Home(home.path, lambda: asked.append(None) or "never")) == PLAIN  # type: ignore[func-returns-value]
    assert asked == []
    protection.protect(home, PASSPHRASE)
    found = Home(home.path, lambda: asked.append(None) or PASSPHRASE)  # type: ignore[func-returns-value]
    assert found.is_protected()
    assert asked == []
    contents(found)
    found.key()
    assert asked == [None]


def test_without_the_passphrase_a_secret_says_what_to_do(home: Home) -> None:
    protection.protect(home, PASSPHRASE)
    for ask in (Home(home.path).key, lambda: contents(Home(home.path))):
        with pytest.raises(PassphraseNeededError):
            ask()
    with pytest.raises(PassphraseError):
        opened(home, "not this one").key()


def test_only_what_is_known_as_a_secret_is_written_as_one(home: Home) -> None:
    with pytest.raises(ValueError, match="not known"):
        home.write_secret(home.path / "anything", b"")


def test_the_leads_passphrase_is_that_of_the_root_key(home: Home) -> None:
    with pytest.raises(PassphraseError):
        protection.protect(home, ANOTHER)
    assert not home.is_protected()


def test_a_short_passphrase_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(InputError, match="at least 8"):
        protection.protect(home, "short")
    assert not home.is_protected()


def test_a_changed_passphrase_opens_and_the_old_one_does_not(home: Home) -> None:
    protection.protect(home, PASSPHRASE)
    protection.change_passphrase(home, PASSPHRASE, ANOTHER)
    assert contents(opened(home, ANOTHER)) == PLAIN
    with pytest.raises(PassphraseError):
        opened(home).key()


def test_taking_the_passphrase_away_leaves_everything_as_it_was(home: Home, authority: Authority) -> None:
    before = {path: path.read_bytes() for path in home.secrets() if path != home.root_key_path}
    protection.protect(home, PASSPHRASE)
    protection.change_passphrase(home, PASSPHRASE, ANOTHER)
    protection.unprotect(home, ANOTHER)
    assert {path: path.read_bytes() for path in before} == before
    unlocked = Authority.unlock(home.root_key_path.read_bytes(), ANOTHER, authority.certificate)
    assert unlocked.private_bytes() == authority.private_bytes()


def test_nobody_protects_a_directory_while_another_command_works_in_it(home: Home) -> None:
    with exclusive(home.path / ROUND), pytest.raises(BusyError):
        protection.protect(home, PASSPHRASE)


def test_half_written_files_do_not_stay(home: Home, tmp_path: Path) -> None:
    half, same = home.path / ROUND / ".basis.npy.7.part", tmp_path / "on the disk"
    half.write_bytes(b"half a basis")
    same.hardlink_to(half)
    protection.protect(home, PASSPHRASE)
    assert not half.exists()
    assert set(same.read_bytes()) == {0}


class TestWithoutLocks:
    """On a network file system that has none, a killed command's file is told from that of a live one."""

    HALF = f"{ROUND}/.basis.npy.{{}}.part"

    @pytest.fixture(autouse=True)
    def _no_locks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", refuse)

    @pytest.fixture
    def ended(self) -> int:
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            process.wait()
        return process.pid

    def test_half_written_files_do_not_stay(self, home: Home, tmp_path: Path, ended: int) -> None:
        for number in (ended, os.getpid()):  # in a container, the next process has the number of the last
            half, same = home.path / self.HALF.format(number), tmp_path / f"on the disk {number}"
            half.write_bytes(b"half a basis")
            same.hardlink_to(half)
            protection.protect(home, PASSPHRASE)
            assert not list(home.path.rglob("*.part"))
            assert set(same.read_bytes()) == {0}

    def test_a_secret_that_a_live_command_may_write_is_waited_for(self, home: Home) -> None:
        half = home.path / self.HALF.format(os.getppid())
        half.write_bytes(b"half a basis")
        with pytest.raises(BusyError, match=re.escape(half.name)):
            protection.protect(home, PASSPHRASE)
        assert half.read_bytes() == b"half a basis"
        os.utime(half, (0, 0))  # nobody has written it for years
        protection.protect(home, PASSPHRASE)
        assert not half.exists()

    def test_an_interrupted_write_leaves_nothing(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                protection.protect(home, PASSPHRASE)
        assert not list(home.path.rglob("*.part"))

    def test_a_secret_is_overwritten_though_its_new_name_was_not_durable(
        self, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        same, basis = tmp_path / "on the disk", home.path / ROUND / "basis.npy"
        same.hardlink_to(basis)

        def fail(directory: Path) -> None:
            if directory == basis.parent:
                raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr("runtime.files.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            protection.protect(home, PASSPHRASE)
        assert not list(home.path.rglob("*.part"))
        assert set(same.read_bytes()) == {0}


def test_what_another_writes_now_stays(home: Home) -> None:
    with writing_whole(home.path / "predictions.csv") as file:
        protection.protect(home, PASSPHRASE)
        file.write(b"predictions")
    assert (home.path / "predictions.csv").read_bytes() == b"predictions"


def test_what_was_readable_is_overwritten_on_the_disk(home: Home, tmp_path: Path) -> None:
    plain = home.secrets()
    before = {tmp_path / f"{number}": path.read_bytes() for number, path in enumerate(plain)}
    for same, path in zip(before, plain, strict=True):
        same.hardlink_to(path)
    protection.protect(home, PASSPHRASE)
    assert [same.read_bytes() for same in before] == [bytes(len(data)) for data in before.values()]


def killed_at(monkeypatch: pytest.MonkeyPatch, at: int, run: Callable[[], None]) -> bool:
    """Run until a number of files was written; whether it came to its end."""
    done = 0

    def write_or_die(path: Path, *parts: Any) -> None:
        nonlocal done
        if done == at:
            raise KeyboardInterrupt
        done += 1
        write_whole(path, *parts)

    with monkeypatch.context() as patched:
        patched.setattr(protection, "write_whole", write_or_die)
        patched.setattr(home_module, "write_whole", write_or_die)
        try:
            run()
        except KeyboardInterrupt:
            return False
    return True


@pytest.mark.parametrize("at", range(7))
def test_protecting_is_killed_anywhere_and_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    assert not killed_at(monkeypatch, at, lambda: protection.protect(home, PASSPHRASE))
    if at:  # the first file written is the one that says that there is a passphrase
        with pytest.raises(UnreadableFileError) as caught:
            everything(opened(home))
        assert "odc protect" in caught.value.hint
    protection.protect(Home(home.path), PASSPHRASE)
    assert contents(opened(home)) == PLAIN
    load_der_private_key(opened(home).read_secret(home.root_key_path), None)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("then", [protection.unprotect, protection.protect])
def test_unprotecting_is_killed_anywhere_and_goes_on_or_back(
    home: Home, monkeypatch: pytest.MonkeyPatch, at: int, then: Callable[[Home, str], None]
) -> None:
    protection.protect(home, PASSPHRASE)
    assert not killed_at(monkeypatch, at, lambda: protection.unprotect(Home(home.path), PASSPHRASE))
    then(Home(home.path), PASSPHRASE)
    assert contents(opened(home)) == PLAIN
    opened(home).key()


def test_a_lost_storage_key_is_said_to_be_missing(home: Home) -> None:
    protection.protect(home, PASSPHRASE)
    home.storage_key_path.unlink()
    for ask in (Home(home.path).key, lambda: contents(Home(home.path))):
        with pytest.raises(UnreadableFileError, match=r"storage\.locked is missing"):
            ask()
