"""What happened in a round and what it cost, for members and for the analyst's operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

from analyst_server.services.analyst import Analyst, find, find_as_member, stored_terms
from analyst_server.services.ingest import stored_manifest
from analyst_server.services.meter import counts_of
from analyst_server.store import Collaboration, Unit, Uplink
from metering.counts import Counts
from metering.explanation import (
    PartyExplanation,
    RoundExplanation,
    Transfer,
    anchor_transfer,
    as_json,
    downlink_formula_bytes,
    downlink_transfer,
    explain_party,
    uplink_transfer,
)
from metering.formulas import FORMULA_BITS, whole_round
from protocol.envelope import decode_stored
from protocol.identity import Identity
from protocol.messages import DownlinkManifest
from protocol.operations import Kind
from protocol.terms import Terms


def for_member(analyst: Analyst, sender: Identity, collaboration_id: str) -> dict[str, Any]:
    with analyst.records.begin() as unit:
        find_as_member(unit, collaboration_id, sender)
        return _report(unit, find(unit, collaboration_id), sender.name)


def for_operator(analyst: Analyst, collaboration_id: str) -> dict[str, Any]:
    with analyst.records.begin() as unit:
        return _report(unit, find(unit, collaboration_id))


def explain_round(
    unit: Unit, collaboration: Collaboration, viewer: str | None = None
) -> RoundExplanation | None:
    """Return where the measured bytes went, or None if nothing was measured.

    ``viewer`` sees its own bytes only: how often others ask is theirs to know.
    """
    terms = stored_terms(collaboration)
    parties = [party for party in terms.parties if viewer in (None, party)]
    counted, before = unit.traffic(collaboration.id), unit.traffic("")
    counters = {row.counter for row in (*counted, *before) if row.party in parties}
    if not counters:
        return None
    by_party: defaultdict[str, dict[Kind, Counts]] = defaultdict(dict)
    for row in counted:
        by_party[row.party][cast("Kind", row.kind)] = counts_of(row)
    membership: defaultdict[str, Counts] = defaultdict(Counts)
    for row in before:
        membership[row.party] += counts_of(row)
    uplinks = {uplink.party: uplink for uplink in unit.received_uplinks(collaboration.id)}
    explained = (
        _explain_party(unit, terms, party, uplinks.get(party), by_party[party], membership[party])
        for party in parties
    )
    return RoundExplanation(tuple(explained), "transport" if "transport" in counters else "kernel")


def _explain_party(
    unit: Unit,
    terms: Terms,
    party: str,
    uplink: Uplink | None,
    counts: Mapping[Kind, Counts],
    membership: Counts,
) -> PartyExplanation:
    sent = received = Transfer()
    if uplink is not None:
        sent = uplink_transfer(terms, stored_manifest(uplink), uplink.manifest)
    downlink = unit.downlink(terms.collaboration_id, party)
    if downlink is not None:
        manifest = decode_stored(DownlinkManifest, downlink.manifest)
        received = downlink_transfer(terms, manifest, downlink.manifest)
    anchor = anchor_transfer(terms, party, counts.get("anchor", Counts()))
    return explain_party(party, counts, membership, uplink=sent, downlink=received, anchor=anchor)


def _report(unit: Unit, collaboration: Collaboration, viewer: str | None = None) -> dict[str, Any]:
    terms = stored_terms(collaboration)
    explanation = explain_round(unit, collaboration, viewer)
    uplinks = unit.received_uplinks(collaboration.id)
    results = collaboration.results or {}
    formulas = whole_round(
        rows=[uplink.rows for uplink in uplinks],
        anchor_rows=terms.anchor.rows,
        features=terms.table_schema.width,
        latent_dim=terms.latent_dim,
        model_parameters=results.get("model_parameters", 0),
        bits=FORMULA_BITS,
    )
    return {
        "collaboration_id": collaboration.id,
        "title": collaboration.title,
        "state": collaboration.state,
        "failure": collaboration.failure,
        "alignment": terms.alignment.method,
        "anchor": {"kind": terms.anchor.kind, "rows": terms.anchor.rows},
        "features": terms.table_schema.width,
        "latent_dim": terms.latent_dim,
        "downlink": terms.downlink,
        "results": collaboration.results,
        "parties": [
            {
                "party": uplink.party,
                "rows": uplink.rows,
                "uplink_formula_bytes": up.total_bytes,
                "uplink_payload_bytes": uplink.payload_bytes,
                "downlink_formula_bytes": (
                    downlink_formula_bytes(terms, results.get("model_parameters", 0)) if results else None
                ),
                "received_at": uplink.received_at,
                # what others did to their rows is theirs and the analyst's to know
                "privacy": stored_manifest(uplink).privacy.model_dump()
                if viewer in (None, uplink.party)
                else None,
            }
            for uplink, up in zip(uplinks, formulas.uplinks, strict=True)
        ],
        "wire": as_json(explanation) if explanation else None,
        "history": [
            {"at": entry.at, "event": entry.event, "party": entry.party, "state": entry.state}
            for entry in unit.ledger(collaboration.id)
        ],
    }
