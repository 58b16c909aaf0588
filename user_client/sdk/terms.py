"""The terms: fetch and verify them, sign them with the words they were shown in (`protocol.consent`)."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from protocol.codec import decode, digest
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, Signed
from protocol.errors import ConsentMissingError, NotPermittedError, TermsMismatchError
from protocol.messages import Acceptance
from protocol.operations import ACCEPT_TERMS, FETCH_TERMS
from protocol.terms import Terms
from runtime.files import write_whole
from user_client.custody.home import exclusive
from user_client.custody.inventory import ACCEPTANCE_FILE, SEALING_KEY_FILE, TERMS_FILE
from user_client.sdk.session import Session

log = logging.getLogger(__name__)


def fetch_terms(session: Session, collaboration_id: str, *, keep: bool = True) -> Terms:
    """Fetch and verify the terms the analyst published.

    Parameters
    ----------
    keep : bool
        Whether a person reads them now: those that are kept are what `accept_terms` signs.

    Raises
    ------
    TrustError
        If the analyst did not sign them, or they are not for us.
    TermsMismatchError
        If they differ from those we have accepted.
    """
    data = session.connection.ask(FETCH_TERMS, collaboration_id=collaboration_id).content
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
            error = TermsMismatchError("our acceptance")
            error.hint = (
                "the analyst shows other terms than those we signed: stop, and ask the lead institution"
            )
            raise error
    elif _were_others_shown(directory / TERMS_FILE, verified.digest):
        log.warning("the analyst has changed the terms since they were shown here: read them again")
    if keep:
        write_whole(directory / TERMS_FILE, data)
    return terms


def _were_others_shown(path: Path, terms_digest: bytes) -> bool:
    if not path.exists():
        return False
    shown = decode(Signed, path.read_bytes()).payload
    return hashlib.sha256(shown).digest() != terms_digest


def were_shown(session: Session, collaboration_id: str) -> bool:
    """Whether the terms were fetched on this machine: those are what is signed."""
    return (session.home.collaboration(collaboration_id) / TERMS_FILE).exists()


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
    if not were_shown(session, collaboration_id):
        fetch_terms(session, collaboration_id)
    terms, _ = session.stored(collaboration_id, Terms, TERMS_FILE, "odc terms show")
    if terms.is_row_revealing and not accept_row_revealing_model:
        raise ConsentMissingError("these terms let members map rows of other members back")
    directory = session.home.collaboration(collaboration_id)
    path = directory / ACCEPTANCE_FILE
    with exclusive(directory):
        _sign_once(session, terms, path, accept_row_revealing_model)
    session.connection.ask(ACCEPT_TERMS, path.read_bytes(), collaboration_id=collaboration_id)
    return terms


def _sign_once(session: Session, terms: Terms, path: Path, accept_row_revealing_model: bool) -> None:
    if not path.exists():
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
        session.home.write_secret(path.parent / SEALING_KEY_FILE, sealing_key.private_bytes())
        write_whole(path, session.sign(acceptance))
