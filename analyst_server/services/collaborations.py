"""Terms, acceptances and the sealed anchor: everything before the uplinks, and the status."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from analyst_server.services.analyst import (
    Analyst,
    find,
    find_as_member,
    find_to_view,
    move,
    require_lead,
    stored_terms,
)
from analyst_server.services.anchor_matrix import matrix_key
from analyst_server.services.retention import erase_arrays
from analyst_server.store import Collaboration, Downlink, Member, Unit, Uplink
from protocol.codec import digest, explain
from protocol.consent import plain_words_digest
from protocol.errors import (
    AlreadyExistsError,
    ConsentMissingError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
    OutOfOrderError,
    TermsMismatchError,
    TermsNotAcceptedError,
)
from protocol.identity import Identity
from protocol.messages import Acceptance, SealedAnchor
from protocol.states import Event, State, advance
from protocol.terms import Terms


def complete_terms(analyst: Analyst, draft: dict[str, Any], collaboration_id: str | None = None) -> Terms:
    """Return the terms in a draft (a parsed TOML or JSON file), with the ids filled in.

    Raises `MalformedMessageError`, which names the fields that are wrong.
    """
    ids = {
        "consortium_id": analyst.root.consortium_id,
        "collaboration_id": collaboration_id or secrets.token_hex(16),
    }
    try:
        return Terms.model_validate({**draft, **ids}, strict=False)
    except ValidationError as error:
        raise MalformedMessageError("terms", explain(error)) from None


def create_once(analyst: Analyst, collaboration_id: str, draft: bytes) -> bool:
    """Publish the terms of a draft (JSON) under an id the caller has drawn; return whether they are new.

    The same again is acknowledged again. Raises `AlreadyExistsError` for other terms under this id.
    """
    try:
        parsed = json.loads(draft)
    except (ValueError, RecursionError):
        raise MalformedMessageError("terms", "are not JSON") from None
    if not isinstance(parsed, dict):
        raise MalformedMessageError("terms", "are not a JSON object")
    collaboration = _draft(analyst, complete_terms(analyst, parsed, collaboration_id))
    with analyst.records.begin(write=True) as unit:
        earlier = unit.collaboration(collaboration_id)
        if earlier is None:
            _publish(unit, collaboration)
            return True
    if earlier.terms_digest != collaboration.terms_digest:
        raise AlreadyExistsError("this collaboration has other terms")
    return False


def create(analyst: Analyst, terms: Terms) -> Collaboration:
    """Store and publish terms; the collaboration is enrolling afterwards."""
    collaboration = _draft(analyst, terms)
    with analyst.records.begin(write=True) as unit:
        _publish(unit, collaboration)
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
    for party in stored_terms(collaboration).parties:
        unit.add(Member(collaboration_id=collaboration.id, party=party))
    at, subject = collaboration.created_at, collaboration.terms_digest
    move(unit, collaboration, Event.PUBLISH_TERMS, at=at, subject=subject)


def signed_terms(analyst: Analyst, sender: Identity, collaboration_id: str) -> bytes:
    """Return the terms as the analyst signed them."""
    with analyst.records.begin(write=True) as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender, at=analyst.clock())
        return collaboration.terms


def accept(analyst: Analyst, sender: Identity, collaboration_id: str, body: bytes) -> None:
    """Keep an institution's signature under the terms. Signing again before the anchor is fine."""
    verified = analyst.verify_from(sender, Acceptance, body)
    acceptance = verified.message
    now = analyst.clock()
    with analyst.records.begin(write=True) as unit:
        collaboration, member = find_as_member(unit, collaboration_id, sender, at=now)
        if (acceptance.collaboration_id, acceptance.party) != (collaboration_id, sender.name):
            raise NotPermittedError(f"{sender.name} accepts for another party or collaboration")
        if acceptance.terms_digest != collaboration.terms_digest:
            raise TermsMismatchError("acceptance")
        if acceptance.shown_digest != plain_words_digest(stored_terms(collaboration)):
            raise TermsMismatchError("the text that was shown before the acceptance")
        if stored_terms(collaboration).is_row_revealing and not acceptance.accept_row_revealing_model:
            raise ConsentMissingError("these terms let members map rows of other members back")
        if member.acceptance == body:  # sent again because its answer was lost, perhaps after the anchor
            return
        move(unit, collaboration, Event.ACCEPT_TERMS, at=now, party=sender.name, subject=verified.digest)
        member.acceptance, member.accepted_at = body, now


def acceptances(analyst: Analyst, sender: Identity, collaboration_id: str) -> list[bytes]:
    """Return the signed acceptances, for the lead to check and seal the anchor to."""
    with analyst.records.begin() as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender)
        require_lead(sender, stored_terms(collaboration))
        return [member.acceptance for member in unit.members(collaboration_id) if member.acceptance]


def publish_anchor(
    analyst: Analyst, sender: Identity, collaboration_id: str, bodies: Sequence[bytes]
) -> None:
    """Keep one sealed anchor per member, all of one seed by the lead's commitment.

    The same again is acknowledged again; another anchor is refused.
    """
    now = analyst.clock()
    sealed = {}
    for body in bodies:
        message = analyst.verify_from(sender, SealedAnchor, body).message
        sealed[message.recipient] = (message, body)
    with analyst.records.begin(write=True) as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender, at=now)
        require_lead(sender, stored_terms(collaboration))
        members = unit.members(collaboration_id)
        if all(member.sealed_anchor for member in members):
            if {m.party: m.sealed_anchor for m in members} == {p: body for p, (_, body) in sealed.items()}:
                return
            raise AlreadyExistsError("the anchor of this collaboration is already published")
        advance(collaboration.now_in, Event.PUBLISH_ANCHOR)  # before the finer reasons below
        _check_anchor([message for message, _ in sealed.values()], collaboration, members)
        if stored_terms(collaboration).anchor_matrix_bytes and not analyst.blobs.exists(
            matrix_key(collaboration_id)
        ):
            raise MalformedMessageError("SealedAnchor", "the matrix it opens was not sent before it")
        for member in members:
            message, body = sealed[member.party]
            member.sealed_anchor, member.anchor_commitment = body, message.commitment
        move(
            unit,
            collaboration,
            Event.PUBLISH_ANCHOR,
            at=now,
            party=sender.name,
            subject=members[0].anchor_commitment,
        )


def _check_anchor(
    anchors: Sequence[SealedAnchor], collaboration: Collaboration, members: Sequence[Member]
) -> None:
    """Raise unless there is one anchor for each member, all of one seed and for these terms."""
    for member in members:
        if member.acceptance is None:
            raise TermsNotAcceptedError(member.party)
    if {anchor.recipient for anchor in anchors} != {member.party for member in members}:
        raise MalformedMessageError("SealedAnchor", "one is needed for each member, and no other")
    for anchor in anchors:
        if (anchor.collaboration_id, anchor.terms_digest) != (collaboration.id, collaboration.terms_digest):
            raise TermsMismatchError("sealed anchor")
    form = "matrix" if stored_terms(collaboration).anchor_matrix_bytes else "seed"
    if {anchor.form for anchor in anchors} != {form}:
        raise MalformedMessageError("SealedAnchor", f"these terms need the form {form}")
    if len({anchor.commitment for anchor in anchors}) > 1:
        raise MalformedMessageError("SealedAnchor", "members would get different anchors")


def sealed_anchor(analyst: Analyst, sender: Identity, collaboration_id: str) -> bytes:
    """Return the anchor sealed for the sender."""
    with analyst.records.begin(write=True) as unit:
        collaboration, member = find_as_member(unit, collaboration_id, sender, at=analyst.clock())
        if member.acceptance is None:
            raise TermsNotAcceptedError(sender.name)
        if member.sealed_anchor is None:
            raise OutOfOrderError(collaboration.state, "fetch anchor")
        return member.sealed_anchor


def cancel(analyst: Analyst, collaboration_id: str) -> None:
    """Give a collaboration up, and erase what it was to be computed from."""
    with analyst.records.begin(write=True) as unit:
        move(unit, find(unit, collaboration_id), Event.CANCEL, at=analyst.clock())
    erase_arrays(analyst, collaboration_id)


def close(analyst: Analyst, collaboration_id: str) -> None:
    """End a released collaboration, and erase its arrays: nobody fetches a downlink any more."""
    with analyst.records.begin(write=True) as unit:
        move(unit, find(unit, collaboration_id), Event.CLOSE, at=analyst.clock())
    erase_arrays(analyst, collaboration_id)


def listing(analyst: Analyst, viewer: Identity | None, only: str | None = None) -> list[dict[str, Any]]:
    """Return the status of every collaboration the viewer is a member of.

    None is the analyst's operator, who sees all; ``only`` is the one that is asked for.
    """
    with analyst.records.begin() as unit:
        rows = unit.collaborations(viewer.name if viewer else None)
        return [_status(unit, row, viewer) for row in rows if only in (None, row.id)]


def status(analyst: Analyst, viewer: Identity | None, collaboration_id: str) -> dict[str, Any]:
    """Return where a collaboration stands and whom it waits for; None is the analyst's operator."""
    with analyst.records.begin() as unit:
        return _status(unit, find_to_view(unit, collaboration_id, viewer), viewer)


def receipt(analyst: Analyst, sender: Identity, collaboration_id: str) -> bytes:
    """Return the receipt of the sender's uplink."""
    with analyst.records.begin() as unit:
        find_as_member(unit, collaboration_id, sender)
        for uplink in unit.uplinks_of(collaboration_id, sender.name):
            if uplink.receipt is not None:
                return uplink.receipt
        raise NotFoundError("no uplink of this party is complete")


def _status(unit: Unit, collaboration: Collaboration, viewer: Identity | None = None) -> dict[str, Any]:
    members = unit.members(collaboration.id)
    uplinks: dict[str, list[Uplink]] = {member.party: [] for member in members}
    for uplink in unit.uplinks(collaboration.id):
        uplinks[uplink.party].append(uplink)
    downlinks = {downlink.party: downlink for downlink in unit.downlinks(collaboration.id)}
    is_out = collaboration.now_in is State.RELEASED
    lead = stored_terms(collaboration).lead
    return {
        "collaboration_id": collaboration.id,
        "title": collaboration.title,
        "state": collaboration.state,
        "members": [
            _member_status(member, uplinks[member.party], downlinks.get(member.party), is_out=is_out)
            for member in members
        ],
        "waiting_for": (
            ["the analyst: odc-analyst collaboration release"]
            if collaboration.now_in is State.TRAINING and collaboration.results is not None
            else _waiting_for(collaboration.now_in, members, uplinks, lead)
        ),
        "failure": collaboration.failure,
        "you": {"party": viewer.name, "role": viewer.role} if viewer else None,
    }


def _member_status(
    member: Member, uplinks: Sequence[Uplink], downlink: Downlink | None, *, is_out: bool
) -> dict[str, Any]:
    received = next((uplink for uplink in uplinks if uplink.receipt), None)
    is_fetched = downlink is not None and downlink.fetched_at is not None
    return {
        "party": member.party,
        "accepted": member.acceptance is not None,
        "anchor_ready": member.sealed_anchor is not None,
        "uplink": "received" if received else "receiving" if uplinks else "none",
        "rows": received.rows if received else None,
        "downlink": "fetched" if is_fetched else "ready" if downlink and is_out else "none",
        "last_seen_at": member.last_seen_at,
    }


def _waiting_for(
    state: State, members: Sequence[Member], uplinks: Mapping[str, Sequence[Uplink]], lead: str
) -> list[str]:
    """Say who has to do what next, in words."""
    if state is State.ENROLLING:
        unsigned = [member.party for member in members if member.acceptance is None]
        return [f"{party}: odc terms accept" for party in unsigned] or [f"{lead}: odc anchor create"]
    if state in (State.ANCHORED, State.COLLECTING):
        return [
            f"{party}: odc contribute"
            for party, sent in uplinks.items()
            if not any(uplink.receipt for uplink in sent)
        ]
    if state in (State.SEALED, State.ALIGNING, State.TRAINING):
        return ["the analyst: the round is computed"]
    if state is State.FAILED:
        return ["the analyst: odc-analyst collaboration resume"]
    return []
