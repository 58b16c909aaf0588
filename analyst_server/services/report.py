"""What happened in a round and what it cost, for members and for the analyst's operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, cast

from analyst_server.services import scores
from analyst_server.services.analyst import Analyst, find, find_as_member, stored_terms
from analyst_server.services.meter import counts_of
from analyst_server.services.report_answers import (
    AlignmentReport,
    CandidateReport,
    ChoiceReport,
    EstimateReport,
    HeadlineReport,
    JudgementReport,
    PartyReport,
    Report,
    Results,
)
from analyst_server.services.stored import stored_downlink, stored_manifest
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
    uplink_formula_bytes,
    uplink_transfer,
)
from protocol.identity import Identity
from protocol.operations import Kind
from protocol.states import State
from protocol.terms import Terms

_SOME_LACK: Final = ("ece", "calibration_slope", "calibration_intercept")
"""The figures that not every scored party has rows enough for."""
_OVER: Final = (State.FAILED, State.CLOSED, State.CANCELLED)
_ONE_PARTY_SCORED: Final = "only one party could be scored, and its score is shown to the analyst alone"


def for_member(analyst: Analyst, sender: Identity, collaboration_id: str) -> Report:
    """Return the report for a member: its own bytes and privacy record, and what all members may know.

    Raises `NotFoundError`.
    """
    with analyst.records.begin() as unit:
        find_as_member(unit, collaboration_id, sender)
        return _report(unit, find(unit, collaboration_id), sender.name)


def for_operator(analyst: Analyst, collaboration_id: str) -> Report:
    """Return the report for the analyst's operator, with every party's bytes; raises `NotFoundError`."""
    with analyst.records.begin() as unit:
        return _report(unit, find(unit, collaboration_id))


def is_settled(analyst: Analyst, collaboration_id: str) -> bool:
    """Return whether no computation will change the report: the model is judged, or will not be.

    Raises `NotFoundError`.
    """
    with analyst.records.begin() as unit:
        found = unit.progress([find(unit, collaboration_id).id])[0]
    is_held = found.state == State.TRAINING and not found.is_leased
    return not found.is_judging and (is_held or found.state in (*_OVER, State.RELEASED))


def explain_round(
    unit: Unit, collaboration: Collaboration, viewer: str | None = None
) -> RoundExplanation | None:
    """Return the explanation of the measured bytes, or None if nothing was measured.

    A ``viewer`` gets its own bytes only: how often other members send requests is not its concern.
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
        manifest = stored_downlink(downlink.manifest)
        received = downlink_transfer(terms, manifest, downlink.manifest)
    anchor = anchor_transfer(terms, party, counts.get("anchor", Counts()))
    return explain_party(party, counts, membership, uplink=sent, downlink=received, anchor=anchor)


def _report(unit: Unit, collaboration: Collaboration, viewer: str | None = None) -> Report:
    terms = stored_terms(collaboration)
    explanation = explain_round(unit, collaboration, viewer)
    uplinks = unit.received_uplinks(collaboration.id)
    results = cast("Results | None", collaboration.results)
    if results and viewer is not None:
        results = _without_parties_scores(_without_spectra(results))
    return {
        "collaboration_id": collaboration.id,
        "title": collaboration.title,
        "state": collaboration.state,
        "failure": collaboration.failure,
        "uplink": terms.uplink,
        "alignment": terms.alignment.method if terms.sums is None else "none",
        "anchor": {"kind": terms.anchor.kind, "rows": terms.anchor.rows},
        "features": terms.table_schema.width,
        "latent_dim": terms.latent_dim,
        "own_maps": list(terms.own_maps),
        "downlink": terms.downlink,
        "results": results,
        "excluded": sorted(unit.excluded(collaboration.id)),
        "member_scores": scores.reported(unit, collaboration.id),
        "parties": [_party_report(terms, uplink, results, viewer) for uplink in uplinks],
        "wire": as_json(explanation) if explanation else None,
        "history": [
            {"at": entry.at, "event": entry.event, "party": entry.party, "state": entry.state}
            for entry in unit.ledger(collaboration.id)
        ],
    }


def _party_report(terms: Terms, uplink: Uplink, results: Results | None, viewer: str | None) -> PartyReport:
    manifest, back, group = stored_manifest(uplink), None, terms.group_of(uplink.party)
    own_dim = None if terms.sums else manifest.rep.shape[1]
    if results:
        back = downlink_formula_bytes(terms, _parameters_of(uplink.party, results), own_dim)
    return {
        "party": uplink.party,
        "rows": uplink.rows if terms.sums is None else None,
        "latent_dim": own_dim,
        "late_consumer": uplink.party in terms.late_consumers,
        "absent_columns": list(terms.absent_columns_of(uplink.party)),
        "joined_with": group.others(uplink.party) if group else [],
        "uplink_formula_bytes": uplink_formula_bytes(terms, manifest),
        "uplink_payload_bytes": uplink.payload_bytes,
        "downlink_formula_bytes": back,
        "received_at": uplink.received_at,
        # what a party did to its rows is known to itself and to the analyst only
        "privacy": manifest.privacy.model_dump() if viewer in (None, uplink.party) else None,
    }


def _parameters_of(party: str, results: Results) -> int:
    """Return how many parameters the model of a party has: that of its group, if it has one."""
    own = (group for group in results.get("groups", []) if party in group["parties"])
    return next((group["model_parameters"] for group in own), results.get("model_parameters", 0))


def _without_spectra(results: Results) -> Results:
    """Return the results for a member, who has no use for how other members' anchors are spread."""
    if "alignment" not in results:
        return results
    kept = {name: found for name, found in results["alignment"].items() if name != "spectra"}
    return {**results, "alignment": cast("AlignmentReport", kept)}


def _without_parties_scores(results: Results) -> Results:
    """Return the results for a member: what a party's rows score is known to the analyst only.

    With one scored party the mean would be that party's score, so it is left out too.
    """
    if "judgement" not in results:
        return results
    judgement = results["judgement"]
    within, across = judgement["within"], judgement["across"]
    shown: JudgementReport = {
        **judgement,
        "within": _without_parties(within),
        "across": _without_parties(across),
        "notes": [],
    }
    if (by_one := judgement.get("one_for_all")) and within:
        shown["one_for_all"] = _without_parties(by_one) if _differ_for_several(within, by_one) else None
    if within and shown["headline"]:
        of_one = [*_of_one_party(within), *_of_unlike_labels(within)]
        kept = {name: found for name, found in shown["headline"].items() if name not in of_one}
        shown["headline"] = cast("HeadlineReport", {**kept, **_labels_of_several(within)})
    if within and len(within["by_party"]) < 2:
        shown |= {"within": None, "headline": None, "why_none": _ONE_PARTY_SCORED}
        shown.pop("one_for_all", None)
    scores = results["hold_out_scores"] if shown["headline"] else None
    if within and scores:
        hidden = [*_of_one_party(within), *_of_unlike_labels(within)]
        scores = {name: mean for name, mean in scores.items() if name not in hidden}
    if "choice" in results and results["choice"]["scored_parties"] < 2:
        results = {**results, "choice": _without_scores(results["choice"])}
    if "alignment_choice" in results and results["alignment_choice"]["scored_parties"] < 2:
        results = {**results, "alignment_choice": _without_scores(results["alignment_choice"])}
    return {**results, "judgement": shown, "hold_out_scores": scores}


def _without_parties(estimate: EstimateReport | None) -> EstimateReport | None:
    """Return the means over at least two parties.

    The calibration table says how many rows of all parties are of a class: of two parties, each could tell
    what the other has sent.
    """
    if estimate is None:
        return None
    hidden: dict[str, Any] = {**dict.fromkeys(_of_one_party(estimate)), "by_party": {}}
    if "calibration" in estimate:
        hidden["calibration"] = None
    hidden |= _labels_of_several(estimate)
    kept = {name: found for name, found in estimate.items() if name not in _of_unlike_labels(estimate)}
    return cast("EstimateReport", {**kept, **hidden})


def _of_one_party(estimate: EstimateReport) -> list[str]:
    """Return the figures that only one party has, of those that some parties lack."""
    scores = [cast("Mapping[str, Any]", one) for one in estimate["by_party"].values()]
    return [
        name
        for name in _SOME_LACK
        if name in estimate and sum(one.get(name) is not None for one in scores) < 2
    ]


def _labels_of_several(estimate: EstimateReport) -> dict[str, Any]:
    """Return the scores of single labels that at least two parties have, if there are any labels."""
    if "labels" not in estimate:
        return {}
    by_party = [one.get("labels", {}) for one in estimate["by_party"].values()]
    known = {
        label: found
        for label, found in estimate["labels"].items()
        if sum(label in one for one in by_party) > 1
    }
    return {"labels": known}


def _of_unlike_labels(estimate: EstimateReport) -> tuple[str, ...]:
    """Return the means over labels that parties could not all score alike.

    Beside the score of each label, such a mean would tell that of the party that lacks one.
    """
    by_party = [frozenset(one.get("labels", {})) for one in estimate["by_party"].values()]
    return ("roc_auc", "pr_auc") if len(set(by_party)) > 1 else ()


def _differ_for_several(estimate: EstimateReport, other: EstimateReport) -> bool:
    """Return whether at least two parties have other scores: both means together tell those of one."""
    others = other["by_party"]
    return sum(others.get(party) != score for party, score in estimate["by_party"].items()) > 1


def _without_scores(choice: ChoiceReport) -> ChoiceReport:
    candidates: list[CandidateReport] = [
        {**one, "mean": None, "spread": None, "why_none": one["why_none"] or _ONE_PARTY_SCORED}
        for one in choice["candidates"]
    ]
    return {**choice, "candidates": candidates}
