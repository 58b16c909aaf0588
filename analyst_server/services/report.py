"""What happened in a round and what it cost, for members and for the analyst's operator."""

from __future__ import annotations

from typing import Any

from analyst_server.services.analyst import Analyst, find, find_as_member, stored_terms
from analyst_server.store import Collaboration, Unit
from protocol.identity import Identity
from protocol.messages import DTYPE_BYTES
from protocol.metering import whole_round


def for_member(analyst: Analyst, sender: Identity, collaboration_id: str) -> dict[str, Any]:
    with analyst.records.begin() as unit:
        find_as_member(unit, collaboration_id, sender)
        return _report(unit, find(unit, collaboration_id))


def for_operator(analyst: Analyst, collaboration_id: str) -> dict[str, Any]:
    with analyst.records.begin() as unit:
        return _report(unit, find(unit, collaboration_id))


def _report(unit: Unit, collaboration: Collaboration) -> dict[str, Any]:
    terms = stored_terms(collaboration)
    uplinks = unit.received_uplinks(collaboration.id)
    results = collaboration.results or {}
    formulas = whole_round(
        rows=[uplink.rows for uplink in uplinks],
        anchor_rows=terms.anchor.rows,
        features=terms.table_schema.width,
        latent_dim=terms.latent_dim,
        model_parameters=results.get("model_parameters", 0),
        bits=8 * DTYPE_BYTES[terms.rep_dtype],
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
        "results": collaboration.results,
        "parties": [
            {
                "party": uplink.party,
                "rows": uplink.rows,
                "uplink_formula_bytes": up.total_bytes,
                "uplink_payload_bytes": uplink.payload_bytes,
                "downlink_formula_bytes": down.total_bytes if results else None,
                "received_at": uplink.received_at,
            }
            for uplink, up, down in zip(uplinks, formulas.uplinks, formulas.downlinks, strict=True)
        ],
        "history": [
            {"at": entry.at, "event": entry.event, "party": entry.party, "state": entry.state}
            for entry in unit.history(collaboration.id)
        ],
    }
