"""The formulas add up, term by term and against each other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering import explanation, formulas
from metering.counts import Counts, Flow
from metering.explanation import Explanation, PartyExplanation, RoundExplanation, Transfer
from protocol.operations import Kind

sizes = st.integers(1, 10**6)


@given(
    rows=st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    anchor_rows=sizes,
    features=sizes,
    latent_dim=st.integers(1, 10**4),
    model_parameters=sizes,
    bits=st.sampled_from([16, 32, 64]),
)
def test_a_round_is_its_uplinks_its_downlinks_and_the_anchor_once(
    rows: list[int], anchor_rows: int, features: int, latent_dim: int, model_parameters: int, bits: int
) -> None:
    whole = formulas.whole_round(
        rows=rows,
        anchor_rows=anchor_rows,
        features=features,
        latent_dim=latent_dim,
        model_parameters=model_parameters,
        bits=bits,
    )
    numbers = (
        sum((n + anchor_rows) * latent_dim for n in rows)
        + len(rows) * (latent_dim**2 + model_parameters)
        + anchor_rows * features
    )
    assert whole.total_bytes == pytest.approx(numbers * bits / 8, rel=1e-12)
    assert len(whole.uplinks) == len(whole.downlinks) == len(rows)


@given(
    rows=st.lists(st.integers(0, 10**5), min_size=1, max_size=8),
    anchor_rows=sizes,
    features=sizes,
    latent_dim=st.integers(1, 10**4),
    model_parameters=sizes,
    participation=st.floats(0.01, 1),
)
def test_at_break_even_both_ways_cost_the_same(
    rows: list[int],
    anchor_rows: int,
    features: int,
    latent_dim: int,
    model_parameters: int,
    participation: float,
) -> None:
    even = formulas.break_even_rounds(
        mean_rows=sum(rows) / len(rows),
        anchor_rows=anchor_rows,
        features=features,
        latent_dim=latent_dim,
        model_parameters=model_parameters,
        participation=participation,
        parties=len(rows),
    )
    ours = formulas.whole_round(
        rows=rows,
        anchor_rows=anchor_rows,
        features=features,
        latent_dim=latent_dim,
        model_parameters=model_parameters,
        bits=32,
    ).total_bytes
    theirs = formulas.federated_averaging(
        rounds=even.total_rounds,
        participation=participation,
        parties=len(rows),
        model_parameters=model_parameters,
        bits=32,
    )
    assert math.isclose(ours, theirs, rel_tol=1e-9)


counts = st.integers(0, 10**9)


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    """What has to be sent: the payload may be smaller or larger than the formula."""
    labels = draw(counts)
    return Transfer(
        formula_bytes=draw(counts),
        payload_bytes=labels + draw(counts),
        labels_bytes=labels,
        framing_bytes=draw(counts),
    )


@st.composite
def flows(draw: st.DrawFn, transfer: Transfer | None = None) -> Flow:
    """A consistent measurement: bodies inside HTTP inside TLS; a transfer came through, or was cut off."""
    whole = transfer.payload_bytes + transfer.framing_bytes if transfer else 0
    body = draw(st.one_of(st.just(whole), st.integers(whole, 2 * whole + 10**6), st.integers(0, whole)))
    plain = body + draw(counts)
    return Flow(
        wire_bytes=plain + draw(counts),
        retransmitted_bytes=draw(counts),
        plain_bytes=plain,
        body_bytes=body,
        segments=draw(counts),
    )


@st.composite
def parties(draw: st.DrawFn) -> tuple[PartyExplanation, int]:
    """A party's explained round, and all bytes that were measured for it."""
    wanted: dict[Kind, Transfer] = {kind: draw(transfers()) for kind in ("uplink", "downlink", "anchor")}
    counted: dict[Kind, Counts] = {
        "uplink": Counts(draw(flows(wanted["uplink"])), draw(flows())),
        "downlink": Counts(draw(flows()), draw(flows(wanted["downlink"]))),
        "anchor": Counts(draw(flows(wanted["anchor"])), draw(flows())),
        "control": Counts(draw(flows()), draw(flows())),
    }
    membership = Counts(draw(flows()), draw(flows()))
    measured = sum(
        flow.wire_bytes + flow.retransmitted_bytes
        for both in (*counted.values(), membership)
        for flow in (both.up, both.down)
    )
    name = draw(st.sampled_from(["hospital-a", "hospital-b"]))
    return explanation.explain_party(name, counted, membership, **wanted), measured


def terms_of(explained: Explanation) -> list[int]:
    return [getattr(explained, name) for name in explanation.TERMS]


@given(st.lists(parties(), min_size=1, max_size=5))
def test_the_terms_add_up_to_what_was_measured_exactly(
    found: list[tuple[PartyExplanation, int]],
) -> None:
    explained = RoundExplanation(tuple(party for party, _ in found), "kernel")
    for party, measured in found:
        assert sum(terms_of(party.total)) == party.total.measured_bytes == measured
        for part in (party.uplink, party.downlink, party.anchor):
            assert sum(terms_of(part)) == part.measured_bytes
    assert sum(terms_of(explained.total)) == explained.total.measured_bytes == sum(m for _, m in found)


@given(st.lists(parties(), min_size=1, max_size=3))
def test_the_report_says_every_term_and_they_add_up(found: list[tuple[PartyExplanation, int]]) -> None:
    shown = explanation.as_json(RoundExplanation(tuple(party for party, _ in found), "kernel"))
    assert sum(shown["total"][name] for name in explanation.TERMS) == shown["total"]["measured_bytes"]
    for party in shown["parties"]:
        for control in (party["control"], party["membership"]):
            measured = control.pop("measured_bytes")
            assert sum(control.values()) == measured


@given(st.data(), transfers())
def test_only_the_encoding_can_save_bytes(data: st.DataObject, transfer: Transfer) -> None:
    found = explanation.explain(data.draw(flows(transfer)), transfer)
    saved = {name for name in explanation.TERMS if getattr(found, name) < 0}
    assert saved <= {"encoding_bytes"}


@given(st.data(), transfers())
def test_what_has_not_come_through_once_explains_nothing_yet(data: st.DataObject, transfer: Transfer) -> None:
    whole = transfer.payload_bytes + transfer.framing_bytes
    body = data.draw(st.integers(0, max(0, whole - 1)))
    found = explanation.explain(Flow(body, 0, body, body), transfer)
    if body < whole:
        assert (found.formula_bytes, found.repeated_bytes) == (0, body)


@given(counts, counts, counts)
def test_an_explanation_that_does_not_add_up_cannot_be_made(formula: int, labels: int, missing: int) -> None:
    with pytest.raises(ValueError, match="do not add up"):
        Explanation(formula + labels + missing + 1, formula_bytes=formula, labels_bytes=labels)
    with pytest.raises(ValueError, match="do not add up"):
        explanation.Control(formula + labels + missing + 1, messages_bytes=formula, http_bytes=labels)
