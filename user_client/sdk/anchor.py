"""The anchor: the lead draws a seed and seals it for each member; members open it."""

from __future__ import annotations

import secrets

from protocol.codec import digest
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, anchor_info, seal, seed_commitment
from protocol.errors import (
    ConsentMissingError,
    MalformedMessageError,
    NotPermittedError,
    SealBrokenError,
    TermsMismatchError,
)
from protocol.limits import SEED_BYTES
from protocol.lists import pack_list, unpack_list
from protocol.messages import Acceptance, SealedAnchor
from protocol.terms import Terms
from user_client.custody.files import exclusive, write_whole
from user_client.custody.keystream import KeyStream
from user_client.errors import NotPreparedError
from user_client.sdk.session import Session, require_role
from user_client.sdk.terms import SEALING_KEY_FILE, stored_terms
from user_client.secret.anchor import expand_anchor
from user_client.secret.numbers import Matrix64

ANCHOR_FILE = "anchor.odc"
DRAWN_FILE = "anchors.odc"
"""What the lead has sealed, for all members."""


def create_anchor(session: Session, collaboration_id: str) -> int:
    """Draw the anchor's seed and publish it sealed for each member; return how many there are.

    The seed is kept nowhere: the lead opens its own sealed copy like every other member. It is drawn once:
    calling again sends what was sealed before, because an analyst that had two anchors of one round, both
    signed by the lead, could give them to different members.

    Raises
    ------
    NotPreparedError
        If somebody has not signed the terms yet.
    TrustError
        If an acceptance the analyst relays was not signed by the party it names.
    """
    terms = stored_terms(session, collaboration_id)
    if session.membership.party != terms.lead:
        raise NotPermittedError(f"the anchor is drawn by {terms.lead}")
    directory, path = session.home.collaboration(collaboration_id), f"/v1/collaborations/{collaboration_id}"
    with exclusive(directory):
        if not (directory / DRAWN_FILE).exists():
            bodies = unpack_list(session.connection.get_message(f"{path}/acceptances"))
            acceptances = _verified_acceptances(session, terms, bodies)
            write_whole(directory / DRAWN_FILE, pack_list(_sealed(session, acceptances)))
    session.connection.send_message("PUT", f"{path}/anchors", (directory / DRAWN_FILE).read_bytes())
    return len(terms.parties)


def _sealed(session: Session, acceptances: dict[str, Acceptance]) -> list[bytes]:
    """Draw a seed and seal it to the key in each acceptance."""
    seed = secrets.token_bytes(SEED_BYTES)
    return [
        session.sign(
            SealedAnchor(
                collaboration_id=acceptance.collaboration_id,
                terms_digest=acceptance.terms_digest,
                recipient=party,
                commitment=seed_commitment(seed),
                sealing_suite=acceptance.sealing_suite,
                ciphertext=seal(
                    seed,
                    acceptance.sealing_suite,
                    acceptance.sealing_key,
                    anchor_info(acceptance.collaboration_id, acceptance.terms_digest, party),
                ),
            )
        )
        for party, acceptance in acceptances.items()
    ]


def _verified_acceptances(session: Session, terms: Terms, bodies: list[bytes]) -> dict[str, Acceptance]:
    """Check that each key to seal to is its party's own word, and for these very terms."""
    found: dict[str, Acceptance] = {}
    for body in bodies:
        verified = session.verify(Acceptance, body)
        acceptance = verified.message
        if verified.author.role == "analyst" or verified.author.name != acceptance.party:
            raise NotPermittedError(f"the acceptance of {acceptance.party} was signed by somebody else")
        if (acceptance.terms_digest, acceptance.shown_digest) != (digest(terms), plain_words_digest(terms)):
            raise TermsMismatchError(f"the acceptance of {acceptance.party}")
        if terms.is_row_revealing and not acceptance.accept_row_revealing_model:
            raise ConsentMissingError(f"{acceptance.party} has not consented to a row-revealing model")
        found[acceptance.party] = acceptance
    missing = sorted(set(terms.parties) - set(found))
    if missing:
        error = NotPreparedError(f"the terms are not yet accepted by {', '.join(missing)}")
        error.hint = "wait for them: `odc status` shows who has signed"
        raise error
    if set(found) != set(terms.parties):
        raise MalformedMessageError("acceptances", "come from parties the terms do not name")
    return found


def open_anchor(session: Session, collaboration_id: str) -> tuple[Matrix64, bytes]:
    """Fetch, verify and open the anchor; return A and the lead's commitment to its seed.

    Raises
    ------
    SealBrokenError
        If it was not sealed for us, or is not what the lead committed to.
    TrustError
        If the lead did not sign it.
    """
    terms = stored_terms(session, collaboration_id)
    directory = session.home.collaboration(collaboration_id)
    path = directory / ANCHOR_FILE
    if not path.exists():
        address = f"/v1/collaborations/{collaboration_id}/anchor"
        data = session.connection.get_message(address)
        verified = session.verify(SealedAnchor, data)
        require_role(verified.author, "lead", "the anchor")
        anchor = verified.message
        if verified.author.name != terms.lead or anchor.recipient != session.membership.party:
            raise SealBrokenError("the anchor was not sealed by the lead for us")
        if (anchor.collaboration_id, anchor.terms_digest) != (collaboration_id, digest(terms)):
            raise TermsMismatchError("the sealed anchor")
        write_whole(path, data)
    anchor, _ = session.stored(collaboration_id, SealedAnchor, ANCHOR_FILE, "odc prepare")
    key = SealingKey.from_bytes(session.home.read_secret(directory / SEALING_KEY_FILE))
    info = anchor_info(collaboration_id, anchor.terms_digest, anchor.recipient)
    try:
        seed = key.open(anchor.ciphertext, info)
        if len(seed) != SEED_BYTES or seed_commitment(seed) != anchor.commitment:
            raise SealBrokenError("the anchor is not the one the lead committed to")
    except SealBrokenError:
        path.unlink()  # so that the next try fetches what the lead sends then
        raise
    stream = KeyStream(seed, f"odc/v1/anchor/{terms.anchor.kind}")
    matrix = expand_anchor(
        terms.anchor.kind, stream.read, rows=terms.anchor.rows, features=terms.table_schema.width
    )
    return matrix, anchor.commitment
