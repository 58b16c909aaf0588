"""The preparation of a round: terms, acceptances and the sealed anchor."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from analyst_server.services import end
from analyst_server.services.analyst import (
    Analyst,
    check_seen,
    find,
    find_as_member,
    find_to_view,
    move,
    published_anchor,
    require_lead,
    stored_terms,
)
from analyst_server.services.anchor_matrix import matrix_key
from analyst_server.store import Collaboration, Member, Unit
from protocol.answers import TermsInWords
from protocol.codec import decode, digest, explain, pack_list, pack_lists
from protocol.consent import plain_words, plain_words_digest
from protocol.drafts import fields_of_json, terms_of
from protocol.envelope import Signed
from protocol.errors import (
    AlreadyExistsError,
    ConsentMissingError,
    MalformedMessageError,
    NotPermittedError,
    OutOfOrderError,
    TermsMismatchError,
    TermsNotAcceptedError,
)
from protocol.identity import Identity, key_digest
from protocol.invitation import Rejection
from protocol.messages import Acceptance, SealedAnchor
from protocol.states import Event, State, advance
from protocol.terms import Terms
from protocol.texts import why_not_new

CAN_BE_REPLACED: Final = (State.ENROLLING, State.ANCHORED)
"""States of a collaboration whose terms can be corrected: nobody has sent under them."""
_MOST_REASONS: Final = 5
MOST_OF_A_PAGE: Final = 4096
"""Acceptances that are read for one page; about half as many fit into a message."""


def complete_terms(analyst: Analyst, draft: dict[str, Any], collaboration_id: str | None = None) -> Terms:
    """Return the terms of a draft (a parsed TOML or JSON file), with both ids filled in.

    Raises `MalformedMessageError`, which names the fields that are wrong.
    """
    ids = {
        "consortium_id": analyst.root.consortium_id,
        "collaboration_id": collaboration_id or secrets.token_hex(16),
    }
    try:
        terms = terms_of(draft, ids)
    except ValidationError as error:
        raise MalformedMessageError("terms", explain(error)) from None
    _check_new(analyst, terms)
    return terms


def _check_new(analyst: Analyst, terms: Terms) -> None:
    """Raise `MalformedMessageError` for terms that can be read and are not published here."""
    own = key_digest(analyst.key.public_key())
    if terms.analyst_key not in (None, own):
        raise MalformedMessageError("terms", f"name another analyst's key: ours is analyst_key = {own}")
    if reasons := list(islice(why_not_new(terms.model_dump()), _MOST_REASONS)):
        raise MalformedMessageError("terms", "; ".join(reasons))


def create_once(analyst: Analyst, collaboration_id: str, draft: bytes) -> bool:
    """Publish the terms of a JSON draft under an id that the caller chose; return whether they are new.

    Publishing the same terms again changes nothing. Raises `AlreadyExistsError` if the id has other
    terms, and what `create_new` and `create` raise.
    """
    try:
        parsed = fields_of_json(draft)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedMessageError("terms", "are not JSON") from None
    except ValueError as error:
        raise MalformedMessageError("terms", f"cannot be read: {error}") from None
    terms = complete_terms(analyst, parsed, collaboration_id)
    collaboration = _draft(analyst, terms)
    with analyst.records.begin(write=True) as unit:
        unit.alone_with(f"collaboration {collaboration_id}")  # which may not be there yet
        earlier = unit.collaboration(collaboration_id)
        if earlier is None:
            _require_known(unit, terms)
            _publish(unit, collaboration)
    if earlier is None:
        _erase_replaced(analyst, terms)
        return True
    if earlier.terms_digest != collaboration.terms_digest:
        raise AlreadyExistsError("this collaboration has other terms")
    return False


def create_new(analyst: Analyst, terms: Terms, *, before_they_join: bool = False) -> Collaboration:
    """Publish terms that somebody has drafted.

    Raises `MalformedMessageError` for texts that deceive, another analyst's key, and parties that are not
    known here, unless they are to join later.
    """
    _check_new(analyst, terms)
    if not before_they_join:
        with analyst.records.begin() as unit:
            _require_known(unit, terms)
    return create(analyst, terms)


def _require_known(unit: Unit, terms: Terms) -> None:
    """Raise `MalformedMessageError` if terms wait for a party that nobody has invited, or that is misspelt.

    A late consumer may join after the release. The lead needs no invitation: it makes them.
    """
    if unknown := sorted(set(terms.awaited_parties) - unit.enrolled_parties() - {terms.lead}):
        names = ", ".join(unknown[:_MOST_REASONS])
        error = MalformedMessageError("terms", f"name parties that are not known here: {names}")
        error.hint = "correct the name, or let the institution run `odc join` before the terms are published"
        raise error


def create(analyst: Analyst, terms: Terms) -> Collaboration:
    """Store and publish terms; return the collaboration, which is now enrolling.

    Raises `NotFoundError` or `OutOfOrderError` if the collaboration that the terms replace cannot end so.
    """
    collaboration = _draft(analyst, terms)
    with analyst.records.begin(write=True) as unit:
        _publish(unit, collaboration)
    _erase_replaced(analyst, terms)
    return collaboration


def _draft(analyst: Analyst, terms: Terms) -> Collaboration:
    now = analyst.clock()
    return Collaboration(
        id=terms.collaboration_id,
        title=terms.title,
        state=State.DRAFT,
        terms=analyst.sign(terms),
        terms_digest=digest(terms),
        created_at=now,
        updated_at=now,
    )


def _publish(unit: Unit, collaboration: Collaboration) -> None:
    unit.add(collaboration)
    terms = stored_terms(collaboration)
    for party in terms.parties:
        unit.add(Member(collaboration_id=collaboration.id, party=party))
    at, subject = collaboration.created_at, collaboration.terms_digest
    if terms.replaces is not None:
        _cancel_replaced(unit, find(unit, terms.replaces), terms, at)
    move(unit, collaboration, Event.PUBLISH_TERMS, at=at, subject=subject)


def _cancel_replaced(unit: Unit, replaced: Collaboration, terms: Terms, now: int) -> None:
    """End a collaboration whose terms are corrected by others.

    Raises `MalformedMessageError` if nothing is corrected, or `OutOfOrderError` if an institution may have
    sent rows under them.
    """
    if replaced.now_in not in CAN_BE_REPLACED:
        why = "terms can be replaced until the first institution sends"
        if replaced.now_in is State.CANCELLED:
            why = "it has ended: if other terms have replaced it, replace those"
        error = OutOfOrderError(replaced.state, "replace terms", why)
        error.hint = "publish them as another collaboration, without --replaces, and cancel or close this one"
        raise error
    ids = {"collaboration_id": replaced.id, "replaces": stored_terms(replaced).replaces}
    if digest(terms.model_copy(update=ids)) == replaced.terms_digest:
        same = MalformedMessageError("terms", "are those that they replace: nothing is corrected in them")
        same.hint = "name the file with the corrections; nothing was published or cancelled"
        raise same
    move(unit, replaced, Event.CANCEL, at=now)


def _erase_replaced(analyst: Analyst, terms: Terms) -> None:
    """Erase the anchor matrix that was sealed under the earlier terms, if there is one."""
    if terms.replaces is not None:
        end.erase_arrays(analyst, terms.replaces)


def signed_terms(analyst: Analyst, sender: Identity, collaboration_id: str) -> bytes:
    """Return the terms as the analyst signed them."""
    with analyst.records.begin() as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender)
        return collaboration.terms


def terms_in_words(analyst: Analyst, viewer: Identity | None, collaboration_id: str) -> TermsInWords:
    """Return the text that every institution signs, for a member or, with None, for the operator.

    Raises `NotFoundError`.
    """
    with analyst.records.begin() as unit:
        terms = stored_terms(find_to_view(unit, collaboration_id, viewer))
    return {"collaboration_id": collaboration_id, "plain_words": plain_words(terms)}


def accept(analyst: Analyst, sender: Identity, collaboration_id: str, body: bytes) -> None:
    """Keep an institution's signature under the terms.

    Until the anchor is published an institution may sign again, which replaces its earlier acceptance and
    what was sealed to the key in it. A late consumer without an anchor may sign after the release.

    Raises
    ------
    NotPermittedError
        If the acceptance is for another party or collaboration.
    TermsMismatchError
        If it is for other terms, has a key of a suite that these do not allow, or another text was shown to
        the person who accepted.
    ConsentMissingError
        If the terms are row-revealing and the acceptance does not consent to that.
    """
    verified = analyst.verify_from(sender, Acceptance, body)
    acceptance = verified.message
    now = analyst.clock()
    with analyst.records.begin(write=True) as unit:
        collaboration, member = find_as_member(unit, collaboration_id, sender)
        if (acceptance.collaboration_id, acceptance.party) != (collaboration_id, sender.name):
            raise NotPermittedError(f"{sender.name} accepts for another party or collaboration")
        if acceptance.terms_digest != collaboration.terms_digest:
            raise TermsMismatchError("acceptance")
        if acceptance.shown_digest != plain_words_digest(stored_terms(collaboration)):
            raise TermsMismatchError("the text that was shown before the acceptance")
        if stored_terms(collaboration).is_row_revealing and not acceptance.accept_row_revealing_model:
            raise ConsentMissingError("these terms let members map rows of other members back")
        if acceptance.sealing_suite not in stored_terms(collaboration).sealing_suites:
            raise TermsMismatchError("the sealing key in the acceptance")
        if (acceptance.mask_key is None) != (stored_terms(collaboration).sums is None):
            raise MalformedMessageError("Acceptance", "a mask key goes with sums")
        if _is_same(member.acceptance, body):  # its answer was lost, perhaps after the anchor
            return
        if collaboration.now_in is State.RELEASED and (
            member.sealed_anchor is not None or sender.name not in stored_terms(collaboration).late_consumers
        ):
            raise OutOfOrderError(collaboration.state, Event.ACCEPT_TERMS)
        check_seen(unit, collaboration, acceptance)
        move(unit, collaboration, Event.ACCEPT_TERMS, at=now, party=sender.name, subject=verified.digest)
        member.acceptance, member.accepted_at, member.rejected = body, now, None
        member.sealed_anchor = member.anchor_commitment = None


def reject(analyst: Analyst, sender: Identity, collaboration_id: str, body: bytes) -> None:
    """Note why a party does not sign the terms; it may sign them later.

    It is no step of the round: the operator publishes other terms, or cancels.

    Raises `OutOfOrderError` once the party has signed, or the terms cannot be signed any more.
    """
    reason = Rejection.from_json(body).reason
    with analyst.records.begin(write=True) as unit:
        collaboration, member = find_as_member(unit, collaboration_id, sender)
        advance(collaboration.now_in, Event.ACCEPT_TERMS)
        if member.acceptance is not None:
            why = f"{sender.name} has signed these terms: ask the analyst's operator to cancel the round"
            raise OutOfOrderError(collaboration.state, Event.ACCEPT_TERMS, why)
        member.rejected = reason


def _is_same(stored: bytes | None, signed: bytes) -> bool:
    """Return whether two signed messages are one: who has a new certificate signs the same message anew."""
    return stored is not None and decode(Signed, stored).payload == decode(Signed, signed).payload


def acceptances_page(analyst: Analyst, sender: Identity, collaboration_id: str, after: str) -> bytes:
    """Return a list of signed acceptances: the lead checks them and seals the anchor to their keys.

    They are in the order of the parties' names, from the first name after ``after`` on, as many as fit into a
    message.
    """
    with analyst.records.begin() as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender)
        require_lead(sender, stored_terms(collaboration))
        found = unit.acceptances(collaboration_id, after, MOST_OF_A_PAGE)
    return next(pack_lists(found), pack_list([]))


def publish_anchor(
    analyst: Analyst, sender: Identity, collaboration_id: str, bodies: Sequence[bytes]
) -> None:
    """Keep a sealed anchor for each member, all of the same seed by the lead's commitment.

    They may come in several lists: with the last of them the anchor is published. A late consumer has one if
    it has accepted the terms by then. After the release the lead seals it for those that have accepted since.
    Publishing the same anchor again changes nothing.

    Raises
    ------
    AlreadyExistsError
        If another anchor is published already.
    TermsNotAcceptedError
        If a member has not accepted the terms.
    MalformedMessageError
        If the messages are not for members, or not of one anchor in the form that the terms ask for, or if
        the matrix of a public anchor was not sent before.
    """
    now = analyst.clock()
    sealed = {}
    for body in bodies:
        message = analyst.verify_from(sender, SealedAnchor, body).message
        sealed[message.recipient] = (message, body)
    with analyst.records.begin(write=True) as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender)
        require_lead(sender, stored_terms(collaboration))
        members = unit.members(collaboration_id)
        if collaboration.now_in is State.ENROLLING:
            _keep(analyst, unit, collaboration, members, sealed, at=now)
            return
        published = {
            member.party: sealed_for
            for member in members
            if (sealed_for := published_anchor(collaboration, member)) is not None
        }
        if not published:
            advance(collaboration.now_in, Event.PUBLISH_ANCHOR)
        new = {party: one for party, one in sealed.items() if not _is_same(published.get(party), one[1])}
        if sealed and not new:
            return
        if collaboration.now_in is State.RELEASED and new and not new.keys() & published.keys():
            _share(unit, collaboration, members, new, at=now)
            return
        raise AlreadyExistsError("the anchor of this collaboration is already published")


def _keep(
    analyst: Analyst,
    unit: Unit,
    collaboration: Collaboration,
    members: Sequence[Member],
    sealed: Mapping[str, tuple[SealedAnchor, bytes]],
    *,
    at: int,
) -> None:
    """Keep the anchor for some members or for all; publish it once all have one of the same anchor."""
    _check_anchor([message for message, _ in sealed.values()], collaboration, members)
    terms = stored_terms(collaboration)
    if terms.anchor_matrix_bytes and not analyst.blobs.exists(matrix_key(collaboration.id)):
        raise MalformedMessageError("SealedAnchor", "the matrix it opens was not sent before it")
    commitment = next(message.commitment for message, _ in sealed.values())
    for member in members:
        if member.party in sealed:
            member.sealed_anchor, member.anchor_commitment = sealed[member.party][1], commitment
        elif member.anchor_commitment != commitment:  # of an anchor that was drawn before, and not published
            member.sealed_anchor = member.anchor_commitment = None
    if set(terms.awaited_parties) <= {member.party for member in members if member.sealed_anchor}:
        move(unit, collaboration, Event.PUBLISH_ANCHOR, at=at, party=terms.lead, subject=commitment)


def _share(
    unit: Unit,
    collaboration: Collaboration,
    members: Sequence[Member],
    sealed: Mapping[str, tuple[SealedAnchor, bytes]],
    *,
    at: int,
) -> None:
    """Keep the published anchor, sealed for late consumers that have accepted the terms since."""
    terms = stored_terms(collaboration)
    allowed = {
        member.party: member
        for member in members
        if member.party in terms.late_consumers and member.acceptance is not None
    }
    if not sealed.keys() <= allowed.keys():
        raise MalformedMessageError(
            "SealedAnchor", "after the release it is for late consumers that have accepted"
        )
    messages = [message for message, _ in sealed.values()]
    _check_alike(messages, collaboration)
    if messages[0].commitment not in {member.anchor_commitment for member in members}:
        raise MalformedMessageError("SealedAnchor", "it is not of the anchor that was published")
    for party, (message, body) in sealed.items():
        member = allowed[party]
        member.sealed_anchor, member.anchor_commitment = body, message.commitment
        move(unit, collaboration, Event.SHARE_ANCHOR, at=at, party=terms.lead, subject=digest(message))


def _check_anchor(
    anchors: Sequence[SealedAnchor], collaboration: Collaboration, members: Sequence[Member]
) -> None:
    """Raise unless all members have accepted, and these are for some of them, alike and for these terms."""
    awaited = set(stored_terms(collaboration).awaited_parties)
    accepted = {member.party for member in members if member.acceptance is not None}
    if missing := sorted(awaited - accepted):
        raise TermsNotAcceptedError(missing[0])
    if not anchors or not {anchor.recipient for anchor in anchors} <= accepted:
        raise MalformedMessageError("SealedAnchor", "each is for a member that has accepted the terms")
    _check_alike(anchors, collaboration)


def _check_alike(anchors: Sequence[SealedAnchor], collaboration: Collaboration) -> None:
    """Raise unless all anchors are of the same seed and for these terms."""
    for anchor in anchors:
        if (anchor.collaboration_id, anchor.terms_digest) != (collaboration.id, collaboration.terms_digest):
            raise TermsMismatchError("sealed anchor")
    form = "matrix" if stored_terms(collaboration).anchor_matrix_bytes else "seed"
    if {anchor.form for anchor in anchors} != {form}:
        raise MalformedMessageError("SealedAnchor", f"these terms need the form {form}")
    if len({anchor.commitment for anchor in anchors}) > 1:
        raise MalformedMessageError("SealedAnchor", "members would get different anchors")


def sealed_anchor(analyst: Analyst, sender: Identity, collaboration_id: str) -> bytes:
    """Return the anchor that is sealed for the sender.

    Raises `TermsNotAcceptedError` if the sender has not accepted the terms, and `OutOfOrderError` until
    the lead has published the anchor.
    """
    with analyst.records.begin() as unit:
        collaboration, member = find_as_member(unit, collaboration_id, sender)
        if member.acceptance is None:
            raise TermsNotAcceptedError(sender.name)
        sealed = published_anchor(collaboration, member)
        if sealed is None:
            terms = stored_terms(collaboration)
            is_late = sender.name in terms.late_consumers and collaboration.now_in is State.RELEASED
            why = f"{terms.lead} has first to run `odc anchor share`" if is_late else ""
            raise OutOfOrderError(collaboration.state, "fetch anchor", why)
        return sealed
