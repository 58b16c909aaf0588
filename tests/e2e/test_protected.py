"""A round in which every institution's directory is under a passphrase, then stolen."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from odc_demo.actors import CommandError
from runtime.terminal import exit_code
from tests.harness.consortium import PASSPHRASE, Consortium, consortium, rows
from user_client.errors import PassphraseNeededError
from user_client.sdk import Session

NAMES = ("lead-hospital", "hospital-b")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("protected"), *NAMES, passphrase=PASSPHRASE) as found:
        yield found


def test_a_protected_round_ends_and_its_stolen_directories_hold_no_secret(made: Consortium) -> None:
    found = made.anchored()
    made.contribute_all(found)
    made.receive_all(found)
    for session in made.sessions.values():
        home = session.home
        basis, sealing_key = (
            home.read_secret(home.collaboration(found) / name) for name in ("basis.npy", "sealing.key")
        )
        key = home.key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).split(b"\n")[1]
        (column,) = np.frombuffer(basis[-8:], "<f8")
        stolen = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())
        for secret in (key, sealing_key, sealing_key[:32], sealing_key[-32:], basis[-64:], column.tobytes()):
            assert secret not in stolen
        with pytest.raises(PassphraseNeededError):
            Session(home.path).round(found).predict(rows(1, 3))


def test_commands_take_the_passphrase_from_a_file_and_miss_it_in_a_sentence(made: Consortium) -> None:
    institution = made.institution("hospital-b")
    file = institution.home.parent / "passphrase"
    file.write_text(PASSPHRASE + "\n")
    assert institution.odc("--passphrase-file", str(file), "status")["party"] == "hospital-b"
    with pytest.raises(CommandError) as missing:
        institution.odc("status")
    assert missing.value.exit_code == exit_code(PassphraseNeededError)
    assert re.search("hint: .*ODC_PASSPHRASE_FILE", missing.value.stderr)
    file.write_text("not this one")
    with pytest.raises(CommandError, match="the passphrase is wrong"):
        institution.odc("--passphrase-file", str(file), "status")
