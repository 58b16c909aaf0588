"""The terms: fetch and verify them, check a table against them, sign them as they were shown."""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from protocol.codec import decode, digest
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, Signed
from protocol.errors import ConsentMissingError, NotPermittedError, TermsMismatchError
from protocol.invitation import Rejection
from protocol.joined_rows import JoinedRows
from protocol.labels import Task
from protocol.messages import Acceptance
from protocol.operations import ACCEPT_TERMS, FETCH_TERMS, REJECT_TERMS
from protocol.table_schema import Schema
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
from user_client.privacy.isolation import Isolated
from user_client.sdk import analyst_key, sums_limits
from user_client.sdk.drafting_curves import banded_by, bends_of
from user_client.sdk.drafting_dither import remarks_on_dither
from user_client.sdk.ledger_check import follow_ledger
from user_client.sdk.lower_dimensions import Kept, kept_by_fewer
from user_client.sdk.policy import Policy
from user_client.sdk.privacy import (
    axes_and_score,
    bits_of,
    isolated_by,
    measured,
    score_targets,
)
from user_client.sdk.releases import OwnRows
from user_client.sdk.session import Session, require_role
from user_client.sdk.unused import Unused, unused_in
from user_client.secret.bands import Told
from user_client.secret.expansion import Matrix64
from user_client.secret.signal import OwnScore, Signal
from user_client.tables import (
    ColumnProfile,
    EncodedTable,
    Misfit,
    RowKeys,
    beside,
    encode_table,
    find_misfits,
    marked_rows,
    profile,
    remarks_on_distances,
    remarks_on_empty,
)

log = logging.getLogger(__name__)

_MANY_DIFFERENT: Final = 100
"""Where columns could make so many times as many rows as there are, equal rows are no chance."""
_NO_ROWS: Final = (
    "the table has no rows: who sends it gets the model without contributing to it, as a consumer"
    " (`odc contribute --consumer`)"
)


@dataclass(frozen=True)
class CheckedTable:
    """How a table goes with terms.

    Attributes
    ----------
    misfits : list of Misfit
        Everything that does not fit, with how many rows have it.
    signal : Signal, optional
        How much of the table's own score lies along its leading axes; None if the table does not fit or
        cannot tell.
    information : Information, optional
        How many bits a row holds, and how many of them can leave; None if the table does not fit.
    isolated : Isolated, optional
        The column that carries the variance under these terms; None if none does.
    banded : dict of str to Told
        The columns that tell the label in bands, which the model of the terms misses.
    remarks : tuple of str
        What to ask the lead about, one sentence each: values that lie otherwise than the terms', empty fields
        that go with the label, columns that the terms do not use and that predict the label, and what the
        dither costs.
    unused : Unused
        The columns that the terms do not use.
    to_choose_from : tuple of Kept
        What the own score keeps if we send so many numbers of a row, where we may choose how many.
    """

    rows: int
    features: int
    """Encoded features of a row of this table."""
    misfits: list[Misfit]
    signal: Signal | None
    information: Information | None
    profile: list[ColumnProfile]
    """What the terms find in each column; empty if the table does not fit."""
    isolated: Isolated | None = None
    banded: Mapping[str, Told] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    unused: Unused = field(default_factory=Unused)
    to_choose_from: tuple[Kept, ...] = ()
    has_labels: bool = True
    """Whether the labels of these rows are ours to send: of joined rows another institution may have them."""


def check_table(
    terms: Terms, data: Any, scratch: Path | None = None, *, party: str | None = None
) -> CheckedTable:
    """Check a table against terms, signed or not.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
    scratch : path, optional
        A directory for what is too large for memory; it gets no name there and is encrypted. Unless it is
        given, that of the system for temporary files.
    party : str, optional
        Whose table it is: columns that the terms say it lacks are not read.

    Raises
    ------
    TableError
        If the rows are joined with those of others, and one has no key, or the key of another.
    """
    schema = terms.table_schema if party is None else terms.schema_of(party)
    kept = Scratch(scratch or Path(tempfile.gettempdir()))
    own = OwnRows(kept)
    group = None if party is None else terms.group_of(party)
    keys = None if group is None else _row_keys(group, terms)
    needs_labels = party is None or terms.has_labels(party)
    looking = {"needs_labels": needs_labels, "reads_labels": needs_labels}
    look = own.look if keys is None else beside(keys.look, own.look)
    try:
        table = encode_table(data, schema, kept.keep, look=look, **looking)
    except TableError:
        found, rows = find_misfits(data, schema, needs_labels=needs_labels)
        if not found:  # it is the row key
            raise
        return CheckedTable(rows, schema.width, found, None, None, [])
    if keys is not None:
        keys.hashes()
    checked = _checked(terms, schema, data, table, party)
    remarks = [*checked.remarks, *_remarks_on_repeated_rows(own.repeated(), checked.rows, checked.profile)]
    if needs_labels and checked.rows:  # else these are none, but stand for those of another institution
        remarks += _remarks_on_labels(table.labels, table.task)
    return replace(checked, has_labels=needs_labels, remarks=tuple(remarks))


def _row_keys(group: JoinedRows, terms: Terms) -> RowKeys:
    """Return what refuses a row without a key of its own; these hashes are of no use to anybody."""
    return RowKeys(secrets.token_bytes(32), group.row_key, terms.table_schema.missing)


def _checked(terms: Terms, schema: Schema, data: Any, table: EncodedTable, party: str | None) -> CheckedTable:
    """Return what terms find in a table that fits its schema."""
    groups = marked_rows(table.labels, table.task)
    found_in = profile(data, schema, groups)
    if terms.sums is not None and (too_few := sums_limits.misfits(terms, terms.sums, table.labels)):
        return CheckedTable(len(table.rows), schema.width, too_few, None, None, [])
    if not len(table.rows):
        return CheckedTable(0, schema.width, [], None, None, found_in, remarks=(_NO_ROWS,))
    numbers = measured(table.rows)
    targets = score_targets(table.labels, table.task)
    told = targets.take(numbers) if targets else None
    group = None if party is None else terms.group_of(party)
    row_key = None if group is None else group.row_key
    unused = unused_in(data, terms.table_schema, told, numbers, row_key=row_key)
    checked = CheckedTable(
        len(table.rows),
        schema.width,
        [],
        None,
        None,
        found_in,
        remarks=(
            *remarks_on_distances(found_in, schema),
            *remarks_on_empty(found_in, schema, [int(one.sum()) for one in groups], len(table.rows)),
            *unused.warnings(),
        ),
        unused=unused,
    )
    if terms.sums is not None:  # of sums nothing is projected
        return checked
    _, all_axes, score = axes_and_score(table.rows, table.labels, table.task)
    most = terms.latent_dim if party is None else terms.latent_dims_of(party)[-1]
    axes = all_axes[:, :most]  # of a party that lacks columns there may be fewer
    some = table.rows.take(numbers)
    projected, bends = some @ axes, bends_of(terms.model, terms.dither)
    bits = partial(bits_of, schema, some, projected, terms.rep_dtype)
    on_dither: Iterable[str] = ()
    if told is not None and terms.model_privacy is None:
        label = terms.table_schema.label_column
        on_dither = remarks_on_dither(
            projected, table.labels[numbers], label, terms.model, terms.dither, bits
        )
    return replace(
        checked,
        signal=score.along(axes) if score else None,
        information=bits(terms.dither),
        isolated=isolated_by(schema, some),
        remarks=(*checked.remarks, *on_dither),
        banded=banded_by(schema, some, told, bends) if told is not None else {},
        to_choose_from=_to_choose_from(terms, score, all_axes) if score else (),
    )


def _remarks_on_repeated_rows(repeated: int, rows: int, columns: Sequence[ColumnProfile]) -> Iterator[str]:
    """Yield a sentence if rows equal earlier ones that do not do so because there are few different ones."""
    different = math.prod(max(1, column.distinct) for column in columns)
    if repeated and different >= _MANY_DIFFERENT * rows:
        yield (
            f"{repeated:,} of {rows:,} rows {'equals' if repeated == 1 else 'equal'} an earlier row in every"
            " column: what was written twice counts twice; take it out, unless these are different people"
        )


def _remarks_on_labels(labels: NDArray[Any], task: Task) -> Iterator[str]:
    """Yield a sentence if these labels alone say nothing."""
    if task == "survival":
        if labels.max() <= 0:
            yield "the event happened in none of the rows: alone they say nothing about when it does"
    elif labels.min() == labels.max():
        yield (
            f"all {len(labels):,} rows have the same label: look at how it is written; if it is right, they"
            " say nothing about it alone, and `odc evaluate` has nothing to compare with"
        )


def _to_choose_from(terms: Terms, score: OwnScore, axes: Matrix64) -> tuple[Kept, ...]:
    least = terms.least_latent_dim
    if least is None:
        return ()
    found = kept_by_fewer(score, axes, min(terms.latent_dim, len(axes)), least)
    return tuple(one for one in found if one.latent_dim >= least)


def fetch_terms(session: Session, directory: RoundDirectory, *, keep: bool) -> Terms:
    """Fetch and verify the terms; keep them for signing if they are shown to a person now."""
    collaboration_id = directory.collaboration_id
    data = session.connection.ask(FETCH_TERMS, collaboration_id=collaboration_id).content
    verified = session.verify_kept(Terms, data)
    require_role(verified.author, "analyst", "Terms")
    terms, membership = verified.message, session.membership
    analyst_key.check_now(session.home, terms, data, "Terms")
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


def own_party(directory: RoundDirectory) -> str:
    """Return who we are in a round whose terms we have signed; raises `NotPreparedError` before that."""
    return directory.load(Acceptance).party


def own_schema(directory: RoundDirectory) -> Schema:
    """Return how our own table becomes a matrix under the terms we have signed: without what we lack."""
    return accepted_terms(directory).schema_of(own_party(directory))


def accept_terms(session: Session, directory: RoundDirectory, *, accept_row_revealing_model: bool) -> Terms:
    """Sign the terms that were shown here, with a new key for the anchor to be sealed to, and send that."""
    if not directory.holds(Terms):
        fetch_terms(session, directory, keep=True)
    terms = directory.load(Terms)
    if (policy := Policy.of(directory.home)) is not None:
        policy.check_schema(terms.schema_of(session.membership.party))
        policy.check_row_key(terms.group_of(session.membership.party))
    if terms.is_row_revealing and not accept_row_revealing_model:
        raise ConsentMissingError("these terms let members map rows of other members back")
    with directory.exclusive():
        if not directory.holds(Acceptance):
            _sign(session, directory, terms, accept_row_revealing_model=accept_row_revealing_model)
    _, signed = directory.load_signed(Acceptance)
    signed = session.signed_now(Acceptance, signed)
    session.connection.ask(ACCEPT_TERMS, signed, collaboration_id=directory.collaboration_id)
    return terms


def reject_terms(session: Session, collaboration_id: str, reason: str) -> None:
    """Tell the analyst, and by it all members, why we do not sign the terms. We may sign them later.

    Raises `InputError` if the reason is no line of text, and `OutOfOrderError` once we have signed.
    """
    body = Rejection.body_of(reason)
    session.connection.ask(REJECT_TERMS, body, collaboration_id=collaboration_id)


def _sign(
    session: Session, directory: RoundDirectory, terms: Terms, *, accept_row_revealing_model: bool
) -> None:
    sealing_key = SealingKey.generate(terms.sealing_suites[0])
    mask_key = MaskKey.generate() if terms.sums is not None else None
    seen = follow_ledger(session, directory).seen if terms.analyst_key is not None else None
    acceptance = Acceptance(
        collaboration_id=terms.collaboration_id,
        terms_digest=digest(terms),
        shown_digest=plain_words_digest(terms),
        party=session.membership.party,
        sealing_suite=sealing_key.suite,
        sealing_key=sealing_key.public_bytes(),
        accept_row_revealing_model=accept_row_revealing_model,
        mask_key=mask_key.public_bytes() if mask_key else None,
        seen=seen,
    )
    directory.write_secret(SEALING_KEY_FILE, sealing_key.private_bytes())
    if mask_key:
        directory.write_secret(MASK_KEY_FILE, mask_key.private_bytes())
    directory.write(Acceptance, session.sign(acceptance))
