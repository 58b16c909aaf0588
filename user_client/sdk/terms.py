"""The terms: fetch and verify them, say them in plain words, sign them."""

from __future__ import annotations

from pathlib import Path

from protocol.codec import digest
from protocol.envelope import SealingKey
from protocol.errors import ConsentMissingError, NotPermittedError, TermsMismatchError
from protocol.messages import DTYPE_BYTES, Acceptance
from protocol.metering import uplink
from protocol.terms import NumericColumn, Terms
from user_client.custody.files import exclusive, write_whole
from user_client.sdk.session import Session

TERMS_FILE = "terms.odc"
ACCEPTANCE_FILE = "acceptance.odc"
SEALING_KEY_FILE = "sealing.key"
_ROUNDED_TO = {
    "f2": "16-bit floats: about three digits",
    "f4": "32-bit floats: about seven digits",
    "f8": "64-bit floats: about sixteen digits",
    "i1": "8-bit integers with a scale for each column: to within 1/254 of the largest in the column",
}


def fetch_terms(session: Session, collaboration_id: str) -> Terms:
    """Fetch, verify and keep the terms the analyst published.

    Raises
    ------
    TrustError
        If the analyst did not sign them, or they are not for us.
    TermsMismatchError
        If they differ from those we have accepted.
    """
    data = session.connection.get_message(f"/v1/collaborations/{collaboration_id}/terms")
    verified = session.verify_from_analyst(Terms, data)
    terms, membership = verified.message, session.membership
    if terms.collaboration_id != collaboration_id or terms.consortium_id != membership.consortium_id:
        raise NotPermittedError("the terms are for another collaboration")
    if membership.party not in terms.parties:
        raise NotPermittedError(f"the terms do not name {membership.party}")
    directory = session.home.collaboration(collaboration_id)
    if (directory / ACCEPTANCE_FILE).exists():
        accepted, _ = session.stored(collaboration_id, Acceptance, ACCEPTANCE_FILE, "odc terms accept")
        if accepted.terms_digest != verified.digest:
            raise TermsMismatchError("our acceptance")
    write_whole(directory / TERMS_FILE, data)
    return terms


def stored_terms(session: Session, collaboration_id: str) -> Terms:
    """Return the terms we have signed; raises `NotPreparedError` before that."""
    session.stored(collaboration_id, Acceptance, ACCEPTANCE_FILE, "odc terms accept")
    terms, _ = session.stored(collaboration_id, Terms, TERMS_FILE, "odc terms accept")
    return terms


def accept_terms(
    session: Session, collaboration_id: str, *, accept_row_revealing_model: bool = False
) -> Terms:
    """Sign the terms, with a fresh key for the anchor to be sealed to.

    Signed are the terms that were fetched, and shown, before; they are fetched now if they were not.
    Signing again sends the same acceptance.

    Raises
    ------
    ConsentMissingError
        If the model is row-revealing and the caller has not said so in as many words.
    """
    terms = _terms_to_sign(session, collaboration_id)
    if terms.is_row_revealing and not accept_row_revealing_model:
        raise ConsentMissingError("these terms let members map rows of other members back")
    directory = session.home.collaboration(collaboration_id)
    path = directory / ACCEPTANCE_FILE
    with exclusive(directory):
        _sign_once(session, terms, path, accept_row_revealing_model)
    address = f"/v1/collaborations/{collaboration_id}/acceptance"
    session.connection.send_message("PUT", address, path.read_bytes())
    return terms


def _terms_to_sign(session: Session, collaboration_id: str) -> Terms:
    if not (session.home.collaboration(collaboration_id) / TERMS_FILE).exists():
        return fetch_terms(session, collaboration_id)
    terms, _ = session.stored(collaboration_id, Terms, TERMS_FILE, "odc terms show")
    return terms


def _sign_once(session: Session, terms: Terms, path: Path, accept_row_revealing_model: bool) -> None:
    if not path.exists():
        sealing_key = SealingKey.generate()
        acceptance = Acceptance(
            collaboration_id=terms.collaboration_id,
            terms_digest=digest(terms),
            party=session.membership.party,
            sealing_suite=sealing_key.suite,
            sealing_key=sealing_key.public_bytes(),
            accept_row_revealing_model=accept_row_revealing_model,
        )
        session.home.write_secret(path.parent / SEALING_KEY_FILE, sealing_key.private_bytes())
        write_whole(path, session.sign(acceptance))


def plain_words(terms: Terms) -> str:
    """Return what a person signs, in words: what leaves, what comes back, to whom."""
    schema, bits = terms.table_schema, 8 * DTYPE_BYTES[terms.rep_dtype]
    per_row = uplink(rows=1, anchor_rows=0, latent_dim=terms.latent_dim, bits=bits).total_bytes
    anchor = uplink(rows=0, anchor_rows=terms.anchor.rows, latent_dim=terms.latent_dim, bits=bits)
    lines = [
        terms.title,
        terms.purpose,
        "",
        f"Parties: {', '.join(terms.parties)} (lead: {terms.lead}).",
        f"Predicted: {schema.label_column.name}, one of {', '.join(schema.label_column.classes)}.",
        "",
        "What leaves this institution, once:",
        f"- each row as {terms.latent_dim} numbers instead of its {schema.width} encoded features,"
        f" {per_row:,.0f} bytes; the secret basis that makes them stays here;",
        f"- the anchor under the same basis, {anchor.total_bytes:,.0f} bytes;",
        f"- both rounded to {_ROUNDED_TO[terms.rep_dtype]};",
        "- the label of each row, as it is.",
        "What comes back: a change-of-basis matrix for this institution alone and one model for all"
        f" ({terms.model.kind}).",
        "Who sees it: the analyst sees what leaves; other institutions see the model, and how many rows each"
        " institution sent.",
        "",
        *_warnings(terms),
        "",
        "Columns:",
    ]
    for column in schema.columns:
        if isinstance(column, NumericColumn):
            empty = "no empty fields" if column.impute is None else f"empty counts as {column.impute:g}"
            lines.append(f"- {column.name}: number from {column.low:g} to {column.high:g}, {empty}")
        else:
            lines.append(f"- {column.name}: one of {', '.join(column.levels)}")
    return "\n".join(lines)


def _warnings(terms: Terms) -> list[str]:
    warnings = [
        "Warning: the analyst and one member together could rebuild the projected part of your rows;"
        " `odc prepare` measures how much that is.",
        "Warning: no noise is added (no differential privacy).",
    ]
    if terms.anchor.kind == "uniform":
        warnings.append("Warning: a uniform anchor tells the analyst more than a haar anchor would.")
    if terms.is_row_revealing:
        warnings.append("Warning: row-revealing model: members can map projected rows of others back.")
    return warnings
