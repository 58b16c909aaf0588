"""The terms: fetch and verify them, check a table against them, sign them as they were shown."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.codec import decode, digest
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, Signed
from protocol.errors import ConsentMissingError, NotPermittedError, TermsMismatchError
from protocol.messages import Acceptance
from protocol.operations import ACCEPT_TERMS, FETCH_TERMS
from protocol.terms import Terms
from user_client.custody.masks import MaskKey
from user_client.custody.round_directory import (
    MASK_KEY_FILE,
    SEALING_KEY_FILE,
    TERMS_FILE,
    RoundDirectory,
)
from user_client.custody.scratch import Scratch
from user_client.errors import TableError
from user_client.privacy.information import Information
from user_client.sdk.policy import Policy
from user_client.sdk.privacy import axes_and_score, bits_of, measured
from user_client.sdk.session import Session
from user_client.secret.signal import Signal
from user_client.tables import all_misfits, encode_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckedTable:
    """How a table goes with terms.

    Attributes
    ----------
    misfits : list of TableError
        The first error of each column that does not fit.
    signal : Signal, optional
        How much of the table's own score lies along its leading axes; None if the table does not fit or
        cannot tell.
    information : Information, optional
        How many bits a row holds, and how many of them can leave; None if the table does not fit.
    """

    rows: int
    misfits: list[TableError]
    signal: Signal | None
    information: Information | None


def check_table(terms: Terms, data: Any, scratch: Path | None = None) -> CheckedTable:
    """Check a table against terms, signed or not.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
    scratch : path, optional
        A directory for what is too large for memory; it gets no name there and is encrypted. Unless it is
        given, that of the system for temporary files.
    """
    schema = terms.table_schema
    try:
        table = encode_table(data, schema, Scratch(scratch or Path(tempfile.gettempdir())).keep)
    except TableError:
        found, rows = all_misfits(data, schema)
        return CheckedTable(rows, found, None, None)
    if not len(table.rows) or terms.sums is not None:  # of sums nothing is projected
        return CheckedTable(len(table.rows), [], None, None)
    _, all_axes, score = axes_and_score(table.rows, table.labels, terms.task)
    axes = all_axes[:, : terms.latent_dim]
    some = table.rows.take(measured(table.rows))
    bits = bits_of(schema, some, some @ axes, number_type=terms.rep_dtype, dither=terms.dither)
    return CheckedTable(len(table.rows), [], score.along(axes) if score else None, bits)


def fetch_terms(session: Session, directory: RoundDirectory, *, keep: bool) -> Terms:
    """Fetch and verify the terms; keep them for signing if they are shown to a person now."""
    collaboration_id = directory.collaboration_id
    data = session.connection.ask(FETCH_TERMS, collaboration_id=collaboration_id).content
    verified = session.verify_from_analyst(Terms, data)
    terms, membership = verified.message, session.membership
    if terms.collaboration_id != collaboration_id or terms.consortium_id != membership.consortium_id:
        raise NotPermittedError("the terms are for another collaboration")
    if membership.party not in terms.parties:
        raise NotPermittedError(f"the terms do not name {membership.party}")
    accepted = directory.find(Acceptance)
    if accepted is not None:
        if accepted.terms_digest != verified.digest:
            error = TermsMismatchError("our acceptance")
            error.hint = (
                "the analyst shows other terms than those we signed: stop, and ask the lead institution"
            )
            raise error
    elif _others_were_shown(directory, verified.digest):
        log.warning("the analyst has changed the terms since they were shown here: read them again")
    if keep:
        directory.write(Terms, data)
    return terms


def _others_were_shown(directory: RoundDirectory, terms_digest: bytes) -> bool:
    if not directory.holds(Terms):
        return False
    shown = decode(Signed, directory.read(TERMS_FILE)).payload
    return hashlib.sha256(shown).digest() != terms_digest


def accepted_terms(directory: RoundDirectory) -> Terms:
    """Return the terms we have signed; raises `NotPreparedError` before that."""
    directory.load(Acceptance)
    return directory.load(Terms)


def accept_terms(session: Session, directory: RoundDirectory, *, accept_row_revealing_model: bool) -> Terms:
    """Sign the terms that were shown here, with a new key for the anchor to be sealed to, and send that."""
    if not directory.holds(Terms):
        fetch_terms(session, directory, keep=True)
    terms = directory.load(Terms)
    if (policy := Policy.of(directory.home)) is not None:
        policy.check_schema(terms.table_schema)
    if terms.is_row_revealing and not accept_row_revealing_model:
        raise ConsentMissingError("these terms let members map rows of other members back")
    with directory.exclusive():
        if not directory.holds(Acceptance):
            _sign(session, directory, terms, accept_row_revealing_model=accept_row_revealing_model)
    _, signed = directory.load_signed(Acceptance)
    session.connection.ask(ACCEPT_TERMS, signed, collaboration_id=directory.collaboration_id)
    return terms


def _sign(
    session: Session, directory: RoundDirectory, terms: Terms, *, accept_row_revealing_model: bool
) -> None:
    sealing_key = SealingKey.generate()
    mask_key = MaskKey.generate() if terms.sums is not None else None
    acceptance = Acceptance(
        collaboration_id=terms.collaboration_id,
        terms_digest=digest(terms),
        shown_digest=plain_words_digest(terms),
        party=session.membership.party,
        sealing_suite=sealing_key.suite,
        sealing_key=sealing_key.public_bytes(),
        accept_row_revealing_model=accept_row_revealing_model,
        mask_key=mask_key.public_bytes() if mask_key else None,
    )
    directory.write_secret(SEALING_KEY_FILE, sealing_key.private_bytes())
    if mask_key:
        directory.write_secret(MASK_KEY_FILE, mask_key.private_bytes())
    directory.write(Acceptance, session.sign(acceptance))
