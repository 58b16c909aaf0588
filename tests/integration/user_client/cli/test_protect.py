"""`odc protect` and the passphrase that the other commands then ask for."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from protocol.errors import InputError
from runtime.terminal import exit_code
from tests.harness.in_process import HOSPITAL, LEAD, URL
from tests.harness.odc import Odc
from user_client.custody import passphrase as passphrase_module
from user_client.custody import vault
from user_client.custody.home import is_encrypted
from user_client.errors import NotJoinedError, PassphraseError, PassphraseNeededError


@pytest.fixture
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        vault, "lock", lambda data, passphrase: passphrase_module.lock(data, passphrase, log2_n=4)
    )


@pytest.mark.usefixtures("quick_scrypt")
def test_a_directory_is_protected_from_the_start_and_says_what_it_needs(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    assert odc("join", "i.json", "--passphrase-file", odc.passphrase).code == 6
    odc("consortium", "approve", "--yes", home=LEAD)
    assert odc("--passphrase-file", odc.passphrase, "join").code == 0
    home = odc.consortium.hospital.home
    assert is_encrypted(home.key_path.read_bytes())
    assert odc("status").code == 0  # by the variable
    monkeypatch.delenv("ODC_PASSPHRASE_FILE")
    without = odc("status")
    assert without.code == exit_code(PassphraseNeededError)
    assert "odc --passphrase-file FILE" in without.err
    odc.passphrase.write_text("not this one")
    wrong = odc("--passphrase-file", odc.passphrase, "status")
    assert (wrong.code, len(wrong.err.splitlines())) == (exit_code(PassphraseError), 2)


@pytest.mark.usefixtures("quick_scrypt")
def test_a_command_derives_a_key_from_the_passphrase_once_or_not_at_all(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[int] = []

    def counted(*, n: int, **given: Any) -> Scrypt:
        derived.append(n)
        return Scrypt(n=n, **given)

    def derivations(*words: str, home: str = HOSPITAL) -> int:
        derived.clear()
        assert odc(*words, home=home).code == 0
        return len(derived)

    odc.consortium.until_accepted()
    monkeypatch.setattr(passphrase_module, "Scrypt", counted)
    assert derivations("status") == 0
    for home in (HOSPITAL, LEAD):
        odc("protect", home=home)
        odc.consortium.session(home)
        assert derivations("status", home=home) == 1
    assert derivations("renew", home=LEAD) == 1  # of the directory and of the root key
    assert derivations("anchor", "create", home=LEAD) == 1
    assert derivations("prepare", str(odc.consortium.table(1))) == 1


@pytest.mark.usefixtures("quick_scrypt")
def test_a_lead_protects_its_directory_before_there_is_anything_in_it(odc: Odc) -> None:
    words = ("consortium", "create", "Lungs", "--analyst", URL, "--party", "lead-b", "--protect")
    assert odc(*words, home="b").code == 0
    home = odc.consortium.session("b").home
    assert is_encrypted(home.key_path.read_bytes())
    assert all(vault.is_sealed(path.read_bytes()) for path in home.secrets() if path != home.key_path)
    assert odc("consortium", "invite", HOSPITAL, home="b").code == 0
    assert odc("renew", home="b").code == 0


@pytest.mark.usefixtures("quick_scrypt")
def test_a_directory_is_protected_afterwards_and_the_passphrase_changed_and_taken_away(odc: Odc) -> None:
    odc.consortium.until_joined()
    plain = odc.consortium.hospital.home.key_path.read_bytes()
    assert odc("protect", "--json").json["protected"] is True
    assert odc("protect").code == 0  # again is no harm
    new = odc.passphrase.with_name("new")
    new.write_text("another passphrase")
    assert "old passphrase still opens copies" in odc("protect", "--change", "--new-passphrase-file", new).out
    assert odc("status").code == exit_code(PassphraseError)
    assert odc("protect", "--remove", "--passphrase-file", new, "--json").json["protected"] is False
    assert odc.consortium.hospital.home.key_path.read_bytes() == plain
    assert odc("status").code == 0


@pytest.mark.parametrize("words", [("--remove",), ("--change",), ("--remove", "--change")])
def test_what_is_not_protected_cannot_be_changed(odc: Odc, words: tuple[str, ...]) -> None:
    odc.consortium.until_joined()
    assert odc("protect", *words).code == exit_code(InputError)


def test_nothing_is_protected_before_joining(odc: Odc) -> None:
    assert odc("protect").code == exit_code(NotJoinedError)
