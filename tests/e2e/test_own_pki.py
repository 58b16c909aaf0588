"""A hospital whose own PKI vouches for its key: by the commands, from the invitation to the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from odc_demo.actors import CommandError, Institution
from tests.harness.consortium import PASSPHRASE, Consortium, consortium
from tests.harness.own_pki import NAME, issue, make_ca, pem
from user_client.sdk import Session

HOSPITAL = "hospital-b"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Consortium]:
    with consortium(tmp_path, "lead-hospital") as found:
        yield found


def test_a_hospital_joins_by_its_own_pki_and_takes_part(made: Consortium, tmp_path: Path) -> None:
    root = make_ca("Root CA")
    issuing = make_ca("Issuing CA", root)
    key = ec.generate_private_key(ec.SECP256R1())
    files = {
        "root.pem": root.pem,
        "chain.pem": pem(issue(issuing, key.public_key()), issuing.der),
        "stranger.pem": pem(issue(make_ca("Root CA"), key.public_key())),
        "key.pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a word")),
        "word": b"a word\n",
        "passphrase": PASSPHRASE.encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    lead, hospital = made.institution("lead-hospital"), Institution(HOSPITAL, tmp_path / HOSPITAL)
    key_files = ("--key", f"{tmp_path}/key.pem", "--key-passphrase-file", f"{tmp_path}/word")
    invitation, chain, stranger = (
        f"{tmp_path}/{name}" for name in ("invitation.json", "chain.pem", "stranger.pem")
    )
    invite = ("consortium", "invite", HOSPITAL, "--out", invitation, "--ca", f"{tmp_path}/root.pem")
    assert lead.odc(*invite, "--name", NAME)["certificate_name"] == NAME

    def approve() -> str:
        """Sign what waits; return what the lead was told."""
        words = ("consortium", "approve", "--yes", "--passphrase-file", f"{tmp_path}/passphrase")
        return lead.start(*words).communicate(timeout=300)[1]

    with pytest.raises(CommandError, match="does not lead to the CA"):  # found by the hospital itself
        hospital.odc("join", invitation, "--cert", stranger, "--ca", f"{tmp_path}/root.pem", *key_files)
    with pytest.raises(CommandError, match="has not approved yet"):  # and by the lead, if it did not look
        hospital.odc("join", invitation, "--cert", stranger, *key_files)
    assert "does not lead to the CA" in approve()

    lead.odc(*invite, "--name", NAME, "--replace")
    with pytest.raises(CommandError, match="has not approved yet"):
        hospital.odc("join", invitation, "--cert", chain, *key_files)
    assert f"its own certificate is valid: {NAME} by the CA CN=Root CA,O=Hospital" in approve()
    hospital.odc("join")

    made.sessions[HOSPITAL] = Session(hospital.home)
    certified = x509.load_pem_x509_certificate((hospital.home / "certificate.pem").read_bytes())
    assert certified.public_key() == key.public_key()
    found = made.anchored()
    made.contribute_all(found)
    made.receive_all(found)

    with pytest.raises(CommandError, match=r"odc renew --cert"):
        hospital.odc("renew")
    with pytest.raises(CommandError, match="has not approved the renewal yet"):
        hospital.odc("renew", "--cert", chain)
    assert NAME in approve()
    assert hospital.odc("renew")["ends"]
