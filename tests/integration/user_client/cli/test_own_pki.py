from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc
from tests.harness.own_pki import NAME, issue, make_ca, pem
from user_client.custody.home import key_pem

INVITE = ("consortium", "invite", HOSPITAL, "--replace", "--out", "i.json")
ASKED = f"{NAME} by the CA CN=Hospital CA,O=Hospital"
JOIN = ("join", "i.json", "--cert", "chain.pem", "--key", "key.pem")


@pytest.fixture
def hospital(odc: Odc) -> Odc:
    """A hospital with the files of its PKI, and an invitation that asks for them."""
    key, ca = ec.generate_private_key(ec.SECP256R1()), make_ca("Hospital CA")
    Path("ca.pem").write_bytes(ca.pem)
    Path("key.pem").write_bytes(key_pem(key, None))
    Path("locked.pem").write_bytes(key_pem(key, b"a word"))
    Path("chain.pem").write_bytes(pem(issue(ca, key.public_key())))
    odc(*INVITE, "--ca", "ca.pem", "--name", NAME, home=LEAD)
    return odc


def test_the_lead_reads_what_it_has_asked_for_and_what_was_checked(hospital: Odc) -> None:
    invited = hospital(*INVITE, "--ca", "ca.pem", "--name", NAME, home=LEAD)
    assert f"it has to send its own certificate: {ASKED}" in invited.out
    joining = hospital(*JOIN, "--ca", "ca.pem")
    assert joining.code == 6
    assert f"it asks for the certificate of our own PKI: {NAME}" in joining.err
    approved = hospital("consortium", "approve", "--yes", home=LEAD)
    assert f"its own certificate is valid: {ASKED}" in approved.err
    assert hospital("join", "--json").json["party"] == HOSPITAL


def test_a_key_with_a_passphrase_says_how_to_give_it(hospital: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    join = (*JOIN[:-1], "locked.pem")
    asked = hospital(*join)
    assert asked.code == 3
    assert "ODC_KEY_PASSPHRASE_FILE" in asked.err
    Path("word").write_text("another\n")
    monkeypatch.setenv("ODC_KEY_PASSPHRASE_FILE", "word")
    assert "passphrase" in hospital(*join).err
    Path("word").write_text("a word\n")
    assert hospital(*join).code == 6


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("join", "i.json"), f"asks for the certificate of our own PKI with the name {NAME}"),
        (("join", "i.json", "--cert", "chain.pem"), "--key KEY.pem"),
        (("join", "i.json", "--key", "key.pem"), "--cert CHAIN.pem"),
        (("join", "i.json", "--ca", "ca.pem"), "--ca needs the certificate"),
        ((*INVITE, "--ca", "ca.pem"), "--ca and --name must be given together"),
        ((*INVITE, "--name", NAME), "--ca and --name must be given together"),
        ((*INVITE, "--ca", "chain.pem", "--name", NAME), "not one that may issue others"),
        ((*INVITE, "--ca", "ca.pem", "--name", "gateway"), "dns:HOST"),
        (("renew", "--cert", "chain.pem"), "without --cert"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_go_together_says_so(hospital: Odc, words: tuple[str, ...], says: str) -> None:
    refused = hospital(*words, home=HOSPITAL if words[0] == "join" else LEAD)
    assert refused.code in (2, 3, 5)
    assert says in refused.err
