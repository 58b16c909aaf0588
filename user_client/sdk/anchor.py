"""The anchor: the lead creates its seed and seals it for each member; each member opens its copy.

A public anchor is a table chosen by the lead, sealed once under a key derived from the seed. The analyst
relays both and can read neither.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from protocol.anchor_matrix import matrix_commitment, open_matrix, seal_matrix, sealed_matrix_bytes
from protocol.codec import digest, pack_lists, unpack_lists
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, anchor_info, decode_stored, seal, seed_commitment
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
from protocol.sums import sums_commitment
from protocol.terms import Terms
from user_client.custody.keystream import KeyStream
from user_client.custody.round_directory import (
    ANCHOR_FILE,
    MATRIX_FILE,
    SEALED_COPIES_FILE,
    SEALING_KEY_FILE,
    RoundDirectory,
)
from user_client.errors import NotPreparedError
from user_client.sdk.ledger_check import follow_ledger
from user_client.sdk.seen_heads import check_acceptances, fetch_list
from user_client.sdk.session import Session, require_role
from user_client.sdk.terms import accepted_terms
from user_client.secret.expansion import Matrix64, expand_anchor
from user_client.tables import encode_rows, table_from


def create_anchor(session: Session, directory: RoundDirectory, table: Any) -> int:
    """Create the anchor's seed and publish it sealed for each member; return how many there are.

    It is created once and stored nowhere: the lead opens its own sealed copy like every other member.
    """
    terms = accepted_terms(directory)
    if session.membership.party != terms.lead:
        raise NotPermittedError(f"only {terms.lead} creates the anchor")
    with directory.exclusive():
        if not directory.holds(SEALED_COPIES_FILE):
            matrix = public_matrix(terms, table)
            acceptances = _fetch_acceptances(session, directory, terms)
            seed = secrets.token_bytes(SEED_BYTES)
            sealed = b"".join(seal_matrix(seed, matrix, terms.sealing_suites[0]))
            if sealed:
                directory.write(MATRIX_FILE, sealed)
            commitment = _commitment(terms, seed, sealed, _mask_keys(terms, acceptances))
            copies = _sealed(session, terms, acceptances, seed, commitment)
            directory.write(SEALED_COPIES_FILE, b"".join(pack_lists(copies)))
        if directory.holds(MATRIX_FILE):
            sealed = directory.read(MATRIX_FILE)
            session.connection.ask(PUBLISH_ANCHOR_MATRIX, sealed, collaboration_id=terms.collaboration_id)
    copies = unpack_lists(directory.read(SEALED_COPIES_FILE))
    _publish(session, terms, copies)
    return len(copies)


def share_anchor(session: Session, directory: RoundDirectory) -> list[str]:
    """Seal the anchor for late consumers that have accepted the terms since; return their names."""
    terms = accepted_terms(directory)
    if session.membership.party != terms.lead:
        raise NotPermittedError(f"only {terms.lead} seals the anchor")
    with directory.exclusive():
        if not directory.holds(SEALED_COPIES_FILE):
            error = NotPreparedError("the anchor was not created on this machine")
            error.hint = "run `odc anchor create`"
            raise error
        copies = unpack_lists(directory.read(SEALED_COPIES_FILE))
        sealed_for = {decode_stored(SealedAnchor, copy).recipient for copy in copies}
        acceptances = _fetch_acceptances(session, directory, terms)
        new = {party: acceptance for party, acceptance in acceptances.items() if party not in sealed_for}
        if new:
            own = _own_copy(session, directory, terms)
            copies += _sealed(session, terms, new, _opened_seed(directory, terms, own), own.commitment)
            directory.write(SEALED_COPIES_FILE, b"".join(pack_lists(copies)))
    _publish(session, terms, copies)
    return sorted(new)


def _publish(session: Session, terms: Terms, copies: Sequence[bytes]) -> None:
    """Send the sealed copies, in as few lists as hold them; the analyst publishes them with the last."""
    for packed in pack_lists([session.signed_now(SealedAnchor, copy) for copy in copies]):
        session.connection.ask(PUBLISH_ANCHOR, packed, collaboration_id=terms.collaboration_id)


def _sealed(
    session: Session, terms: Terms, acceptances: dict[str, Acceptance], seed: bytes, commitment: bytes
) -> list[bytes]:
    """Seal the seed to the key in each acceptance."""
    form: Literal["seed", "matrix"] = "matrix" if terms.anchor_matrix_bytes else "seed"
    mask_keys = _mask_keys(terms, acceptances)
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
                mask_keys=mask_keys,
            )
        )
        for party, acceptance in acceptances.items()
    ]


def _mask_keys(terms: Terms, acceptances: Mapping[str, Acceptance]) -> tuple[bytes, ...]:
    """Return the mask key of each party, in the order of the terms; none, where these need none."""
    if terms.sums is None:
        return ()
    return tuple(acceptances[party].mask_key or b"" for party in terms.parties)


def _commitment(terms: Terms, seed: bytes, sealed: bytes, mask_keys: Sequence[bytes]) -> bytes:
    """Return what the lead commits to under these terms; ``sealed`` is the matrix of a public anchor."""
    if terms.sums is not None:
        return sums_commitment(seed, mask_keys)
    return matrix_commitment(seed, sealed) if terms.anchor_matrix_bytes else seed_commitment(seed)


def public_matrix(terms: Terms, table: Any, sample: Callable[[range, int], list[int]] | None = None) -> bytes:
    """Return the matrix of a public anchor as it is sent: float32, little-endian, by rows. Else nothing.

    The rows are taken at random and in random order, so that whoever has the table does not know the anchor;
    only a simulation names another way to draw them.
    """
    if not terms.anchor.traits.travels_as_matrix:
        if table is not None:
            raise InputError(f"a {terms.anchor.kind} anchor comes from a seed: omit the table")
        return b""
    if table is None:
        error = InputError("these terms have a public anchor, which is taken from a table")
        error.hint = "name the table: `odc anchor create --table FILE`"
        raise error
    rows = encode_rows(table_from(table), terms.table_schema)
    if len(rows) < terms.anchor.rows:
        raise InputError(f"the table of the anchor needs {terms.anchor.rows} rows, it has {len(rows)}")
    chosen = (sample or secrets.SystemRandom().sample)(range(len(rows)), terms.anchor.rows)
    return rows[chosen].astype("<f4").tobytes()


def _fetch_acceptances(session: Session, directory: RoundDirectory, terms: Terms) -> dict[str, Acceptance]:
    """Fetch the acceptance of each party, and compare the ledgers that they have seen with ours."""
    bodies = fetch_list(session, terms, LIST_ACCEPTANCES, Acceptance)
    found = verified_acceptances(session, terms, bodies)
    if terms.analyst_key is not None:
        check_acceptances(bodies, follow_ledger(session, directory).entries)
    return found


def verified_acceptances(session: Session, terms: Terms, bodies: Sequence[bytes]) -> dict[str, Acceptance]:
    """Check that each party has itself signed the key to seal to, and has signed these very terms.

    Late consumers may be missing.
    """
    found: dict[str, Acceptance] = {}
    for body in bodies:
        verified = session.verify_kept(Acceptance, body)
        acceptance = verified.message
        if verified.author.role == "analyst" or verified.author.name != acceptance.party:
            raise NotPermittedError(f"the acceptance of {acceptance.party} was signed by somebody else")
        if (acceptance.terms_digest, acceptance.shown_digest) != (digest(terms), plain_words_digest(terms)):
            raise TermsMismatchError(f"the acceptance of {acceptance.party}")
        if acceptance.sealing_suite not in terms.sealing_suites:
            raise TermsMismatchError(f"the sealing key of {acceptance.party}")
        if terms.is_row_revealing and not acceptance.accept_row_revealing_model:
            raise ConsentMissingError(f"{acceptance.party} has not consented to a row-revealing model")
        if (acceptance.mask_key is None) != (terms.sums is None):
            raise MalformedMessageError("Acceptance", f"of {acceptance.party}: a mask key goes with sums")
        found[acceptance.party] = acceptance
    missing = sorted(set(terms.awaited_parties) - set(found))
    if missing:
        error = NotPreparedError(f"the terms are not yet accepted by {', '.join(missing)}")
        error.hint = "wait for them: `odc status` shows who has signed"
        raise error
    if not set(found) <= set(terms.parties):
        raise MalformedMessageError("acceptances", "come from parties the terms do not name")
    return found


def open_anchor(session: Session, directory: RoundDirectory) -> tuple[Matrix64, bytes]:
    """Fetch, verify and open the anchor; return A and the lead's commitment to it.

    Raises
    ------
    SealBrokenError
        If it was not sealed for us, or is not the anchor the lead committed to.
    TrustError
        If the lead did not sign it.
    NotPreparedError
        If the key that opens it was erased from this machine.
    """
    terms = accepted_terms(directory)
    anchor = _own_copy(session, directory, terms)
    try:
        seed = _opened_seed(directory, terms, anchor)
        return _expanded(session, directory, terms, seed, anchor), anchor.commitment
    except SealBrokenError:
        directory.remove(ANCHOR_FILE, MATRIX_FILE)  # so that the next attempt fetches them again
        raise


def open_seed(session: Session, directory: RoundDirectory) -> tuple[bytes, SealedAnchor]:
    """Fetch, verify and open our copy of the seed, under terms with sums; return it with that copy.

    Raises as `open_anchor` does, and `SealBrokenError` if the mask keys in it are not those of this round.
    """
    terms = accepted_terms(directory)
    anchor = _own_copy(session, directory, terms)
    try:
        seed = _opened_seed(directory, terms, anchor)
        if _commitment(terms, seed, b"", anchor.mask_keys) != anchor.commitment:
            raise SealBrokenError("the seed and the mask keys are not those the lead committed to")
        own = terms.parties.index(session.membership.party)
        if len(anchor.mask_keys) != len(terms.parties) or (
            anchor.mask_keys[own] != directory.load(Acceptance).mask_key
        ):
            raise SealBrokenError("the mask keys are not one of each institution, with ours in its place")
    except SealBrokenError:
        directory.remove(ANCHOR_FILE)  # so that the next attempt fetches it again
        raise
    return seed, anchor


def stored_seed(directory: RoundDirectory) -> bytes:
    """Return the seed of our copy of the anchor, which `open_anchor` has fetched and verified before.

    Raises `NotPreparedError` if the copy, or the key that opens it, is not on this machine.
    """
    _require_key(directory)
    return _opened_seed(directory, accepted_terms(directory), directory.load(SealedAnchor))


def _own_copy(session: Session, directory: RoundDirectory, terms: Terms) -> SealedAnchor:
    """Return the anchor sealed for us, fetched once; raises `NotPreparedError` without the key to it."""
    _require_key(directory)
    if not directory.holds(SealedAnchor):
        _fetch_anchor(session, directory, terms)
    return directory.load(SealedAnchor)


def _require_key(directory: RoundDirectory) -> None:
    if not directory.holds(SEALING_KEY_FILE):
        error = NotPreparedError("the key to the anchor was erased from this machine: it cannot be opened")
        error.hint = "the key cannot be recovered; take part in another collaboration"
        raise error


def _fetch_anchor(session: Session, directory: RoundDirectory, terms: Terms) -> None:
    """Fetch our copy of the anchor and check whom it is from and for."""
    data = session.connection.ask(FETCH_ANCHOR, collaboration_id=terms.collaboration_id).content
    verified = session.verify_kept(SealedAnchor, data)
    require_role(verified.author, "lead", "the anchor")
    anchor = verified.message
    if verified.author.name != terms.lead or anchor.recipient != session.membership.party:
        raise SealBrokenError("the anchor was not sealed by the lead for us")
    if (anchor.collaboration_id, anchor.terms_digest) != (terms.collaboration_id, digest(terms)):
        raise TermsMismatchError("the sealed anchor")
    directory.write(SealedAnchor, data)


def _opened_seed(directory: RoundDirectory, terms: Terms, anchor: SealedAnchor) -> bytes:
    suite = directory.load(Acceptance).sealing_suite
    if anchor.sealing_suite != suite:
        raise SealBrokenError(f"the anchor was sealed with {anchor.sealing_suite}, our key is for {suite}")
    key = SealingKey.from_bytes(directory.read_secret(SEALING_KEY_FILE), suite)
    info = anchor_info(terms.collaboration_id, anchor.terms_digest, anchor.recipient)
    seed = key.open(anchor.ciphertext, info)
    if len(seed) != SEED_BYTES or (anchor.form == "matrix") != bool(terms.anchor_matrix_bytes):
        raise SealBrokenError("the anchor is not of the form the terms ask for")
    return seed


def _expanded(
    session: Session, directory: RoundDirectory, terms: Terms, seed: bytes, anchor: SealedAnchor
) -> Matrix64:
    is_matrix = bool(terms.anchor_matrix_bytes)
    sealed = _sealed_matrix(session, directory, terms) if is_matrix else b""
    if _commitment(terms, seed, sealed, anchor.mask_keys) != anchor.commitment:
        raise SealBrokenError("the anchor is not the one the lead committed to")
    if is_matrix:
        return as_anchor(terms, open_matrix(seed, sealed, terms.sealing_suites[0]))
    stream = KeyStream(seed, f"odc/v1/anchor/{terms.anchor.kind}")
    return expand_anchor(
        terms.anchor.kind, stream.read, rows=terms.anchor.rows, features=terms.table_schema.width
    )


def _sealed_matrix(session: Session, directory: RoundDirectory, terms: Terms) -> bytes:
    """Return the sealed matrix of a public anchor, fetched once; the terms say how long it is."""
    if directory.holds(MATRIX_FILE):
        return directory.read(MATRIX_FILE)
    length, received = sealed_matrix_bytes(terms), bytearray()
    with session.connection.stream(FETCH_ANCHOR_MATRIX, collaboration_id=terms.collaboration_id) as answer:
        for piece in answer.pieces:
            received += piece
            if len(received) > length:
                raise LimitExceededError("anchor matrix in bytes", length, len(received))
    if len(received) < length:
        raise TruncatedError("anchor matrix", length, len(received))
    matrix = bytes(received)
    directory.write(MATRIX_FILE, matrix)
    return matrix


def as_anchor(terms: Terms, data: bytes) -> Matrix64:
    matrix = np.frombuffer(data, dtype="<f4").astype(np.float64)
    if not np.isfinite(matrix).all():
        raise SealBrokenError("the lead's anchor has entries that are not finite numbers")
    return matrix.reshape(terms.anchor.rows, terms.table_schema.width)
