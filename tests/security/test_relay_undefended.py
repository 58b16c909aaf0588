"""The swaps of `test_split_view` once more, with and without what refuses them: what the relay would get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256

import numpy as np
import pytest

from protocol.codec import M, decode, digest, unpack_list
from protocol.envelope import SealingKey, Signed, Verified, anchor_info, seal, seed_commitment
from protocol.errors import NotPermittedError, TermsMismatchError
from protocol.identity import Identity
from protocol.messages import Acceptance, SealedAnchor
from protocol.states import State
from protocol.terms import Terms
from tests.harness.attacks import colluders_basis, got
from tests.harness.consortium import Consortium, consortium, rows
from tests.harness.relay import FORGERS, Signer, content, signed_by_the_analyst, tampering, the
from user_client.custody.keystream import KeyStream
from user_client.sdk import Session
from user_client.sdk.anchor import open_anchor
from user_client.secret.expansion import Matrix64, expand_anchor
from user_client.tables import encode_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    names = ("lead-hospital", "hospital-b", "hospital-c")
    with consortium(tmp_path_factory.mktemp("undefended"), *names) as found:
        yield found


def believing(self: Session, kind: type[M], data: bytes) -> Verified[M]:
    """Take a signed message for what it says of itself: no certificate and no signature is looked at."""
    payload = decode(Signed, data).payload
    message, membership = decode(kind, payload), self.membership
    authors = {
        Terms: ("analyst", "analyst"),
        SealedAnchor: ("lead", "lead-hospital"),
        Acceptance: ("institution", getattr(message, "party", "")),
    }
    role, name = authors[kind]
    return Verified(message, Identity(membership.consortium_id, role, name), sha256(payload).digest())  # type: ignore[arg-type]  # a role


def believe_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what refuses a message of now, and one that was kept."""
    for defence in ("verify", "verify_kept"):
        monkeypatch.setattr(Session, defence, believing)


def relays_seed(found: str) -> tuple[bytes, Matrix64]:
    """A seed of the relay's own, and the anchor that follows from it."""
    seed = bytes(range(32))
    stream = KeyStream(seed, "odc/v1/anchor/haar")
    return seed, expand_anchor("haar", stream.read, rows=4, features=4)


@pytest.mark.parametrize(("forger", "_error"), FORGERS)
def test_without_signatures_the_relay_reads_the_anchor(
    made: Consortium,
    forger: Callable[[Consortium], Signer],
    _error: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, relay_key = made.publish(), SealingKey.generate()
    for session in made.sessions.values():
        session.round(found).accept()
    with tampering(made) as unit:
        member = the(unit.member(found, "hospital-b"))
        honest = content(Acceptance, member.acceptance)
        member.acceptance = forger(made)(honest.model_copy(update={"sealing_key": relay_key.public_bytes()}))
    believe_all(monkeypatch)
    made.lead.round(found).create_anchor()
    with tampering(made) as unit:
        sealed = content(SealedAnchor, the(unit.member(found, "hospital-b")).sealed_anchor)
    seed = relay_key.open(sealed.ciphertext, anchor_info(found, sealed.terms_digest, "hospital-b"))
    read = expand_anchor("haar", KeyStream(seed, "odc/v1/anchor/haar").read, rows=4, features=4)
    anchor, _ = open_anchor(made.lead, made.lead.round(found).directory)
    got(f"relay, {forger.__name__}, unverified", anchor_entries=int((read == anchor).sum()))
    np.testing.assert_array_equal(read, anchor)


@pytest.mark.parametrize("defence", ["on", "off"])
def test_the_relay_undoes_a_projection_only_if_signatures_are_not_looked_at(
    made: Consortium, defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an anchor of its own choice the analyst alone does what it needs a colluding member for."""
    found = made.anchored()
    seed, anchor = relays_seed(found)
    with tampering(made) as unit:
        member = the(unit.member(found, "hospital-b"))
        honest = content(SealedAnchor, member.sealed_anchor)
        acceptance = content(Acceptance, member.acceptance)
        info = anchor_info(found, honest.terms_digest, "hospital-b")
        sealed = seal(seed, acceptance.sealing_suite, acceptance.sealing_key, info)
        changes = {"ciphertext": sealed, "commitment": seed_commitment(seed)}
        member.sealed_anchor = signed_by_the_analyst(made)(honest.model_copy(update=changes))
    b, table = made.sessions["hospital-b"], rows(1, 30)
    if defence == "off":
        believe_all(monkeypatch)
        b.round(found).prepare(table)
    else:
        with pytest.raises(NotPermittedError):
            b.round(found).prepare(table)
    payload = b.home.collaboration(found) / "uplink.payload"
    rebuilt = 0.0
    if payload.exists():
        numbers = np.frombuffer(payload.read_bytes()[: 4 * 2 * (30 + 4)], "<f4").reshape(-1, 2)
        rep, anchor_rep = numbers[:30].astype(np.float64), numbers[30:].astype(np.float64)
        truth = encode_rows(table, b.round(found).terms.table_schema)
        guess = rep @ np.linalg.pinv(colluders_basis(anchor, anchor_rep))
        rebuilt = 1 - float(np.linalg.norm(guess - truth) / np.linalg.norm(truth))
    got(f"relay with its own anchor, signatures {defence}", share_of_the_rows_rebuilt=rebuilt)
    assert (rebuilt > 0.2) == (defence == "off")


@pytest.mark.parametrize("defence", ["on", "off"])
def test_an_old_anchor_is_used_again_only_if_the_round_is_not_looked_at(
    made: Consortium, defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody of an earlier round, who has left, still has its anchor; the lead's signature on it is good.

    Three things stand in the way: the round in what was signed, the round in the seal, and a sealing key
    for each round. Off takes them all away.
    """
    earlier, found = made.anchored(), made.anchored()
    known, _ = open_anchor(made.sessions["hospital-c"], made.sessions["hospital-c"].round(earlier).directory)
    with tampering(made) as unit:
        old = the(unit.member(earlier, "hospital-b")).sealed_anchor
        the(unit.member(found, "hospital-b")).sealed_anchor = old
    b = made.sessions["hospital-b"]
    if defence == "off":
        signed = content(SealedAnchor, old)
        monkeypatch.setattr("user_client.sdk.anchor.digest", lambda _terms: signed.terms_digest)
        monkeypatch.setattr(
            Session,
            "verify_kept",
            lambda self, kind, data: replaced(believing(self, kind, data), collaboration_id=found),
        )
        info = anchor_info(earlier, signed.terms_digest, "hospital-b")
        monkeypatch.setattr("user_client.sdk.anchor.anchor_info", lambda *_bound_to: info)
        key = b.home.collaboration(earlier) / "sealing.key"
        (b.home.collaboration(found) / "sealing.key").write_bytes(key.read_bytes())
        used, _ = open_anchor(b, b.round(found).directory)
    else:
        with pytest.raises(TermsMismatchError):
            open_anchor(b, b.round(found).directory)
        used = np.zeros_like(known)
    got(f"relay with an old anchor, checks {defence}", known_entries=int((used == known).sum()))
    assert bool((used == known).all()) == (defence == "off")


def replaced(verified: Verified[M], **changes: object) -> Verified[M]:
    return Verified(verified.message.model_copy(update=changes), verified.author, verified.digest)


@pytest.mark.parametrize("defence", ["on", "off"])
def test_terms_of_its_own_for_one_member_get_past_a_lead_that_does_not_compare(
    made: Consortium, defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay shows hospital-b terms under which each row is four numbers, and everybody else two."""
    found = made.publish()
    with tampering(made) as unit:
        collaboration = the(unit.collaboration(found))
        honest, honest_digest = collaboration.terms, collaboration.terms_digest
        other = content(Terms, honest).model_copy(update={"latent_dim": 4})
        collaboration.terms, collaboration.terms_digest = signed_by_the_analyst(made)(other), digest(other)
    made.sessions["hospital-b"].round(found).accept()
    with tampering(made) as unit:
        collaboration = the(unit.collaboration(found))
        collaboration.terms, collaboration.terms_digest = honest, honest_digest
    for name in ("lead-hospital", "hospital-c"):
        made.sessions[name].round(found).accept()
    b = made.sessions["hospital-b"]
    if defence == "on":
        with pytest.raises(TermsMismatchError, match="the acceptance of hospital-b"):
            made.lead.round(found).create_anchor()
        numbers = 0
    else:
        monkeypatch.setattr("user_client.sdk.anchor.verified_acceptances", uncompared)
        with pytest.raises(TermsMismatchError):  # the server of an honest analyst compares, too
            made.lead.round(found).create_anchor()
        drawn = unpack_list((made.lead.home.collaboration(found) / "anchors.odc").read_bytes())
        with tampering(made) as unit:
            collaboration = the(unit.collaboration(found))
            collaboration.state = State.ANCHORED
            for body in drawn:
                anchor = content(SealedAnchor, body)
                member = the(unit.member(found, anchor.recipient))
                member.sealed_anchor, member.anchor_commitment = body, anchor.commitment
        numbers = b.round(found).prepare(rows(1, 30)).latent_dim
    got(f"relay with two versions of the terms, compared: {defence}", numbers_for_each_row_of_b=numbers)
    assert numbers == (0 if defence == "on" else 4)


def uncompared(_session: Session, _terms: Terms, bodies: list[bytes]) -> dict[str, Acceptance]:
    return {found.party: found for found in (content(Acceptance, body) for body in bodies)}


@pytest.mark.parametrize("defence", ["on", "off"])
def test_members_get_two_anchors_only_from_a_lead_that_draws_twice(made: Consortium, defence: str) -> None:
    """The relay says that the first anchor never came, and serves both, each signed by the lead.

    No member can see it: each gets one anchor that is in order. So the lead must never sign a second. Off
    is a lead that has forgotten the first.
    """
    found = made.anchored()
    b, c = made.sessions["hospital-b"], made.sessions["hospital-c"]
    with tampering(made) as unit:
        first = the(unit.member(found, "hospital-b")).sealed_anchor
        the(unit.collaboration(found)).state = State.ENROLLING
        for member in unit.members(found):
            member.sealed_anchor = member.anchor_commitment = None
    if defence == "off":
        (made.lead.home.collaboration(found) / "anchors.odc").unlink()
    made.lead.round(found).create_anchor()
    with tampering(made) as unit:
        the(unit.member(found, "hospital-b")).sealed_anchor = first
    (anchor_of_b, commitment_of_b), (anchor_of_c, commitment_of_c) = (
        open_anchor(session, session.round(found).directory) for session in (b, c)
    )
    alike = bool(np.array_equal(anchor_of_b, anchor_of_c))
    got(f"relay that asks for a second anchor, drawn once: {defence}", anchors=1 if alike else 2)
    assert alike == (commitment_of_b == commitment_of_c) == (defence == "on")


@pytest.mark.parametrize("defence", ["on", "off"])
def test_the_receipt_of_somebody_else_is_believed_only_if_it_is_not_compared(
    made: Consortium, defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay that has lost an uplink, and answers with the receipt of another."""
    found = made.anchored()
    b, c = made.sessions["hospital-b"], made.sessions["hospital-c"]
    made.contribute("hospital-c", found, rows(2, 40))
    replayed = (c.home.collaboration(found) / "receipt.odc").read_bytes()
    b.round(found).prepare(rows(1, 40))
    monkeypatch.setattr("user_client.sdk.uplink.send_uplink", lambda *_args, **_kwargs: replayed)
    if defence == "off":
        monkeypatch.setattr("user_client.sdk.receipt.check_receipt", lambda _receipt, _manifest: None)
        b.round(found).contribute()
    else:
        with pytest.raises(NotPermittedError, match="the receipt is for another uplink"):
            b.round(found).contribute()
    is_believed = (b.home.collaboration(found) / "receipt.odc").exists()
    got(f"relay with the receipt of another, compared: {defence}", believed=int(is_believed))
    with made.operator() as opened, opened.records.begin() as unit:
        assert not [one for one in unit.uplinks_of(found, "hospital-b") if one.receipt]
    assert is_believed == (defence == "off")
