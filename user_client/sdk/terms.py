"""The terms: draft them, fetch and verify them, sign them with the text they were shown in."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import tomli_w

from protocol.codec import decode, digest
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, Signed
from protocol.errors import ConsentMissingError, InputError, NotPermittedError, TermsMismatchError
from protocol.messages import Acceptance
from protocol.operations import ACCEPT_TERMS, FETCH_TERMS
from protocol.terms import WELL_PREDICTED_ROWS, RowType, Terms
from user_client.custody.round_directory import SEALING_KEY_FILE, TERMS_FILE, RoundDirectory
from user_client.sdk.session import Session
from user_client.tables import draft_schema, read_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DraftedTerms:
    """Terms for people to discuss and correct, before the analyst publishes them."""

    content: dict[str, Any]
    """What the analyst's operator reads from the file; checked when the terms are published."""
    features: int
    """Encoded features of a row."""
    latent_dim: int

    def to_toml(self) -> str:
        """Return the file for people to edit."""
        return tomli_w.dumps(self.content)


def draft_terms(
    table: Path,
    *,
    label: str,
    parties: Sequence[str],
    title: str,
    latent_dim: int | None = None,
    rep_dtype: str = "f4",
    out_of_range: str = "refuse",
    exclude: Sequence[str] = (),
    nri: bool = False,
) -> DraftedTerms:
    """Draft terms from one table, whose columns, ranges, levels and medians become the schema.

    Parameters
    ----------
    label : str
        The column to predict.
    parties : sequence of str
        The institutions, the lead first.
    latent_dim : int, optional
        How many numbers a row becomes; half of the encoded features unless it is given.
    rep_dtype : {"f2", "f4", "f8", "i1"}
        Number type of the representations.
    out_of_range : {"refuse", "clip"}
        What every institution does with a number outside its range.
    exclude : sequence of str
        Columns to leave out.
    nri : bool
        Whether every institution erases its basis (docs/nri.md).

    Raises
    ------
    InputError, TableError
        If an argument is not one of its values, or a column of the table cannot be a feature.
    """
    if out_of_range not in ("refuse", "clip"):
        raise InputError(f"out_of_range must be refuse or clip, got {out_of_range}")
    if rep_dtype not in get_args(RowType):
        raise InputError(f"rep_dtype must be one of {', '.join(get_args(RowType))}, got {rep_dtype}")
    schema = draft_schema(read_table(table), label, exclude, out_of_range=out_of_range)
    features = sum(len(column["levels"]) if "levels" in column else 1 for column in schema["columns"])
    if latent_dim is None:
        latent_dim = max(1, features // 2)
    if not 1 <= latent_dim <= features:
        raise InputError(f"latent_dim must be between 1 and the {features} features, got {latent_dim}")
    content = {
        "title": title,
        "purpose": "",
        "parties": list(parties),
        "lead": parties[0],
        "latent_dim": latent_dim,
        "rep_dtype": rep_dtype,
        **(_nri_terms(features) if nri else {"anchor": {"kind": "haar", "rows": features}}),
        "alignment": {"method": "isotropic"},
        "model": {"kind": "mlp", "hidden_units": 256, "learning_rate": 0.002},
        "table_schema": schema,
    }
    return DraftedTerms(content, features, latent_dim)


def _nri_terms(features: int) -> dict[str, Any]:
    """Return the terms that differ in the NRI-DC mode (docs/nri.md)."""
    return {
        "downlink": "anchor-predictions",
        "anchor": {"kind": "gaussian", "rows": WELL_PREDICTED_ROWS * features},
    }


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
    acceptance = Acceptance(
        collaboration_id=terms.collaboration_id,
        terms_digest=digest(terms),
        shown_digest=plain_words_digest(terms),
        party=session.membership.party,
        sealing_suite=sealing_key.suite,
        sealing_key=sealing_key.public_bytes(),
        accept_row_revealing_model=accept_row_revealing_model,
    )
    directory.write_secret(SEALING_KEY_FILE, sealing_key.private_bytes())
    directory.write(Acceptance, session.sign(acceptance))
