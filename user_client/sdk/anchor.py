"""The anchor: the lead draws a seed and seals it for each member; members open it.

A public anchor is a table of the lead's, sealed once under a key from the seed. The analyst relays both
unread.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal

import numpy as np

from protocol.anchor_matrix import matrix_commitment, open_matrix, seal_matrix, sealed_matrix_bytes
from protocol.codec import digest, pack_list, unpack_list
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, anchor_info, seal, seed_commitment
from protocol.errors import (
    ConsentMissingError,
    InputError,
    LimitExceededError,
    MalformedMessageError,
    NotPermittedError,
    SealBrokenError,
    TermsMismatchError,
    TruncatedError,
)
from protocol.limits import SEED_BYTES
from protocol.messages import Acceptance, SealedAnchor
from protocol.operations import (
    FETCH_ANCHOR,
    FETCH_ANCHOR_MATRIX,
    LIST_ACCEPTANCES,
    PUBLISH_ANCHOR,
    PUBLISH_ANCHOR_MATRIX,
)
from protocol.terms import Terms
from runtime.files import write_whole
from user_client.custody.home import exclusive
from user_client.custody.inventory import ANCHOR_FILE, DRAWN_FILE, MATRIX_FILE, SEALING_KEY_FILE
from user_client.custody.keystream import KeyStream
from user_client.errors import NotPreparedError
from user_client.sdk.session import Session, require_role
from user_client.sdk.terms import stored_terms
from user_client.secret.expansion import Matrix64, expand_anchor
from user_client.tables import encode_rows, table_from


def create_anchor(session: Session, collaboration_id: str, table: Any = None) -> int:
    """Draw the anchor's seed and publish it sealed for each member; return how many there are.

    The seed is kept nowhere: the lead opens its own sealed copy like every other member. It is drawn once:
    calling again sends what was sealed before, because an analyst that had two anchors of one round, both
    signed by the lead, could give them to different members.

    Parameters
    ----------
    table : path, pyarrow.Table or data frame, optional
        For a public anchor, and needed there: a table with the feature columns of the terms. As many of its
        rows as the terms say are taken at random and in random order, so that who knows the table does not
        know the anchor.

    Raises
    ------
    NotPreparedError
        If somebody has not signed the terms yet.
    TrustError
        If an acceptance the analyst relays was not signed by the party it names.
    InputError, TableError
        If the table is missing, too short or does not fit the terms.
    """
    terms = stored_terms(session, collaboration_id)
    if session.membership.party != terms.lead:
        raise NotPermittedError(f"the anchor is drawn by {terms.lead}")
    directory = session.home.collaboration(collaboration_id)
    with exclusive(directory):
        if not (directory / DRAWN_FILE).exists():
            matrix = _public_matrix(terms, table)
            bodies = unpack_list(
                session.connection.ask(LIST_ACCEPTANCES, collaboration_id=collaboration_id).content
            )
            acceptances = _verified_acceptances(session, terms, bodies)
            seed = secrets.token_bytes(SEED_BYTES)
            sealed = b"".join(seal_matrix(seed, matrix))
            if sealed:
                write_whole(directory / MATRIX_FILE, sealed)
            write_whole(directory / DRAWN_FILE, pack_list(_sealed(session, acceptances, seed, sealed)))
        if (directory / MATRIX_FILE).exists():
            matrix = (directory / MATRIX_FILE).read_bytes()
            session.connection.ask(PUBLISH_ANCHOR_MATRIX, matrix, collaboration_id=collaboration_id)
    drawn = (directory / DRAWN_FILE).read_bytes()
    session.connection.ask(PUBLISH_ANCHOR, drawn, collaboration_id=collaboration_id)
    return len(terms.parties)


def _sealed(
    session: Session, acceptances: dict[str, Acceptance], seed: bytes, sealed_matrix: bytes
) -> list[bytes]:
    """Seal the seed to the key in each acceptance."""
    form: Literal["seed", "matrix"] = "matrix" if sealed_matrix else "seed"
    commitment = matrix_commitment(seed, sealed_matrix) if sealed_matrix else seed_commitment(seed)
    return [
        session.sign(
            SealedAnchor(
                collaboration_id=acceptance.collaboration_id,
                terms_digest=acceptance.terms_digest,
                recipient=party,
                form=form,
                commitment=commitment,
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


def _public_matrix(terms: Terms, table: Any) -> bytes:
    """Return the matrix of a public anchor as it travels: float32, little-endian, by rows. Else nothing."""
    if not terms.anchor.traits.travels_as_matrix:
        if table is not None:
            raise InputError(f"a {terms.anchor.kind} anchor comes from a seed: leave the table away")
        return b""
    if table is None:
        raise InputError("these terms have a public anchor: name its table with --table FILE")
    rows = encode_rows(table_from(table), terms.table_schema)
    if len(rows) < terms.anchor.rows:
        raise InputError(f"the table of the anchor needs {terms.anchor.rows} rows, it has {len(rows)}")
    chosen = secrets.SystemRandom().sample(range(len(rows)), terms.anchor.rows)
    return rows[chosen].astype("<f4").tobytes()


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
    """Fetch, verify and open the anchor; return A and the lead's commitment to it.

    Raises
    ------
    SealBrokenError
        If it was not sealed for us, or is not what the lead committed to.
    TrustError
        If the lead did not sign it.
    NotPreparedError
        If we have forgotten the key to it.
    """
    terms = stored_terms(session, collaboration_id)
    directory = session.home.collaboration(collaboration_id)
    path = directory / ANCHOR_FILE
    if not (directory / SEALING_KEY_FILE).exists():
        error = NotPreparedError("the key to the anchor was erased from this machine: it cannot be opened")
        error.hint = "it cannot be brought back; take part in another collaboration"
        raise error
    if not path.exists():
        data = session.connection.ask(FETCH_ANCHOR, collaboration_id=collaboration_id).content
        verified = session.verify(SealedAnchor, data)
        require_role(verified.author, "lead", "the anchor")
        anchor = verified.message
        if verified.author.name != terms.lead or anchor.recipient != session.membership.party:
            raise SealBrokenError("the anchor was not sealed by the lead for us")
        if (anchor.collaboration_id, anchor.terms_digest) != (collaboration_id, digest(terms)):
            raise TermsMismatchError("the sealed anchor")
        write_whole(path, data)
    anchor, _ = session.stored(collaboration_id, SealedAnchor, ANCHOR_FILE, "odc prepare")
    try:
        return _opened(session, terms, anchor), anchor.commitment
    except SealBrokenError:
        path.unlink()  # so that the next try fetches what the lead sends then
        (directory / MATRIX_FILE).unlink(missing_ok=True)
        raise


def _opened(session: Session, terms: Terms, anchor: SealedAnchor) -> Matrix64:
    directory = session.home.collaboration(terms.collaboration_id)
    key = SealingKey.from_bytes(session.home.read_secret(directory / SEALING_KEY_FILE))
    info = anchor_info(terms.collaboration_id, anchor.terms_digest, anchor.recipient)
    seed = key.open(anchor.ciphertext, info)
    is_matrix = bool(terms.anchor_matrix_bytes)
    if len(seed) != SEED_BYTES or (anchor.form == "matrix") != is_matrix:
        raise SealBrokenError("the anchor is not of the form the terms ask for")
    sealed = _fetch_matrix(session, terms) if is_matrix else b""
    commitment = matrix_commitment(seed, sealed) if is_matrix else seed_commitment(seed)
    if commitment != anchor.commitment:
        raise SealBrokenError("the anchor is not the one the lead committed to")
    if is_matrix:
        return _as_anchor(terms, open_matrix(seed, sealed))
    stream = KeyStream(seed, f"odc/v1/anchor/{terms.anchor.kind}")
    return expand_anchor(
        terms.anchor.kind, stream.read, rows=terms.anchor.rows, features=terms.table_schema.width
    )


def _fetch_matrix(session: Session, terms: Terms) -> bytes:
    """Return the sealed matrix, kept from an earlier time or fetched; its length is known beforehand."""
    path = session.home.collaboration(terms.collaboration_id) / MATRIX_FILE
    if path.exists():
        return path.read_bytes()
    length, received = sealed_matrix_bytes(terms), bytearray()
    with session.connection.stream(FETCH_ANCHOR_MATRIX, collaboration_id=terms.collaboration_id) as pieces:
        for piece in pieces:
            received += piece
            if len(received) > length:
                raise LimitExceededError("anchor matrix in bytes", length, len(received))
    if len(received) < length:
        raise TruncatedError("anchor matrix", length, len(received))
    matrix = bytes(received)
    write_whole(path, matrix)
    return matrix


def _as_anchor(terms: Terms, data: bytes) -> Matrix64:
    matrix = np.frombuffer(data, dtype="<f4").astype(np.float64)
    if not np.isfinite(matrix).all():
        raise SealBrokenError("the lead's anchor has entries that are no numbers")
    return matrix.reshape(terms.anchor.rows, terms.table_schema.width)
