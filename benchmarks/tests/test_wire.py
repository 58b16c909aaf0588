from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.flower.fedavg import mlp, party
from benchmarks.report import Report
from benchmarks.wire import by_round, flower
from benchmarks.wire.claims import add_claims, control_bytes, downlink_ratio, meter_gap, uplink_ratio
from benchmarks.wire.compare import Compared
from benchmarks.wire.flower import Federation
from benchmarks.wire.ours import Round, typical
from benchmarks.wire.tables import bundled, hand_picked, large_uplinks
from metering.explanation import Control, Explanation, PartyExplanation
from odc_demo.namespaces import Counters
from odc_demo.sitting import Exchanged
from protocol.terms import Terms
from user_client.sdk import DITHER, draft_terms

DRAFTED = bundled()


@pytest.mark.parametrize(
    "work", [*DRAFTED, *hand_picked(None), large_uplinks(rows=50)], ids=lambda work: work.name
)
def test_the_terms_of_every_data_set_are_valid(work: Any) -> None:
    ids = {"consortium_id": 32 * "a", "collaboration_id": 32 * "b"}
    terms = Terms.model_validate({**work.terms(), **ids}, strict=False)
    assert terms.table_schema.width == work.features
    assert set(terms.parties) == set(work.by_party)


@pytest.mark.parametrize("work", DRAFTED, ids=lambda work: work.name)
def test_what_is_claimed_is_under_terms_as_the_lead_drafts_them(work: Any) -> None:
    """`odc terms draft` writes them; what differs is that all rows train."""
    drafted = draft_terms(
        work.by_party[work.parties[0]],
        label=work.schema.label_column.name,
        parties=work.parties,
        title=f"Benchmark: {work.name}",
    ).content
    assert work.terms() == {**drafted, "hold_out": 0.0}
    assert (drafted["rep_dtype"], drafted["dither"], drafted["model"]) == ("i1", DITHER, {"kind": "averaged"})


def test_no_row_of_the_digits_is_at_two_parties() -> None:
    (digits,) = (work for work in DRAFTED if work.name == "digits")
    assert sum(table.num_rows for table in digits.by_party.values()) + digits.hold_out.num_rows == 1797


@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_of_flowers_model_is_the_slope_of_its_loss(classes: int) -> None:
    rng = np.random.default_rng(classes)
    rows = rng.normal(size=(20, 5))
    labels = rng.integers(0, classes, 20)
    weights = [array.astype(np.float64) for array in mlp.initial_weights(5, classes, seed=1)]

    def loss(index: int, step: np.ndarray[Any, Any]) -> float:
        moved = [array + step if place == index else array for place, array in enumerate(weights)]
        hidden = np.maximum(rows @ moved[0] + moved[1], 0)
        scores = hidden @ moved[2] + moved[3]
        scores = np.hstack([np.zeros_like(scores), scores]) if classes == 2 else scores
        told = scores[np.arange(20), labels] - np.log(np.exp(scores).sum(axis=1))
        penalty = (moved[0] ** 2).sum() + (moved[2] ** 2).sum()
        return float(-told.mean() + mlp.PENALTY / 20 * penalty / 2)

    for index, slope in enumerate(mlp.gradient(weights, rows, labels)):  # type: ignore[arg-type]  # float64, to compare
        direction = rng.normal(size=slope.shape)
        step = 1e-7 * direction  # small enough to pass no kink of a ReLU
        expected = (loss(index, step) - loss(index, -step)) / 2e-7
        # float32 in the error of the output: seven digits, over twenty rows
        assert float((slope * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_flowers_model_starts_with_as_many_numbers_as_ours_has() -> None:
    weights = mlp.initial_weights(30, classes=2)
    assert sum(array.size for array in weights) == 30 * 256 + 256 + 256 + 1
    assert {array.dtype for array in weights} == {np.dtype(np.float32)}


LINE = Counters(
    sent_bytes=7_000 + 50 * 66 + 2 * 8,
    received_bytes=5_000 + 40 * 66 + 2 * 8,
    sent_frames=50,
    received_frames=40,
    connections=2,
    refused_connections=0,
    repeated_segments=1,
)
OWN = PartyExplanation(
    party="a",
    uplink=Explanation(measured_bytes=6_000, formula_bytes=5_800, labels_bytes=100, tls_bytes=100),
    downlink=Explanation(measured_bytes=4_500, formula_bytes=1_000, http_bytes=3_500),
    anchor=Explanation(measured_bytes=0),
    control=Control(measured_bytes=900, messages_bytes=900),
    membership=Control(measured_bytes=500, tls_bytes=500),
)


def _report(repeated_bytes: int) -> dict[str, Any]:
    quiet = {"retransmitted_bytes": 0}
    kinds = dict.fromkeys(("uplink", "anchor", "control", "membership"), quiet)
    row = {"party": "a", **kinds, "downlink": {"retransmitted_bytes": repeated_bytes}}
    return {"wire": {"parties": [row]}}


def test_headers_come_off_the_counters() -> None:
    assert (LINE.sent_payload_bytes, LINE.received_payload_bytes) == (7_000, 5_000)
    assert LINE.tcp_payload_bytes == 12_000


def test_a_refused_connection_is_all_headers() -> None:
    """A SYN with its options goes, and a frame without any comes back."""
    refused = replace(
        LINE,
        sent_bytes=LINE.sent_bytes + 66 + 8,
        sent_frames=LINE.sent_frames + 1,
        received_bytes=LINE.received_bytes + 14 + 20 + 20,
        received_frames=LINE.received_frames + 1,
        connections=LINE.connections + 1,
        refused_connections=1,
    )
    assert (refused.sent_payload_bytes, refused.received_payload_bytes) == (7_000, 5_000)


def test_what_the_analyst_repeated_is_not_missing_from_the_partys_count() -> None:
    for repeated_bytes, gap in ((100, 0), (40, 60 / 12_000), (160, 60 / 12_000)):
        found = Round({}, {"a": LINE}, {"a": OWN}, _report(repeated_bytes), {})
        assert meter_gap(found, "a") == pytest.approx(gap)


def test_the_typical_round_is_that_of_median_seconds_with_everybodys_mean_score() -> None:
    rounds = [
        Round({"predicted": seconds}, {}, {}, {}, {"accuracy": score})
        for seconds, score in ((9.0, 0.5), (5.0, 0.6), (6.0, 1.0))
    ]
    found = typical(rounds)
    assert found.seconds == 6.0
    assert found.scores["accuracy"] == pytest.approx(0.7)


def test_ratios_are_over_the_formulas() -> None:
    assert uplink_ratio(OWN) == pytest.approx(6_000 / 5_900)
    assert downlink_ratio(OWN) == pytest.approx(500 / 1_000)
    assert control_bytes(OWN) == 1_400


def test_every_round_of_ours_counts_for_the_worst_of_all() -> None:
    large = replace(OWN, uplink=Explanation(measured_bytes=8_000_000, formula_bytes=8_000_000))
    talkative = replace(OWN, control=Control(measured_bytes=60_000, messages_bytes=60_000))

    def played(seconds: float, explained: PartyExplanation) -> Round:
        return Round({"predicted": seconds}, {"a": LINE}, {"a": explained}, _report(0), {"accuracy": 0.9})

    rounds = (played(1, OWN), played(2, OWN), played(9, talkative))
    federation = Federation(100, {"a": LINE}, {"accuracy": 0.9})
    early = Federation(10, {"a": LINE}, {"accuracy": 0.9})
    compared = Compared(DRAFTED[0], rounds, federation, federation, [0.9, 0.9], early)
    found = Report("wire")
    sitting = {"b": Exchanged(9_000, 15_000, 0), "c": Exchanged(8_000, 16_500, 3_200)}
    add_claims(found, played(1, large), [compared], sitting)
    claims = {claim.id: claim for claim in found.claims}
    assert claims["control_bytes_per_party"].value == 16_500
    assert not claims["control_bytes_per_party"].holds
    assert claims["control_bytes_with_joining"].value == 27_700
    assert claims["control_bytes_with_joining"].holds
    assert not claims["meter_vs_interface"].holds  # the interface saw nothing of what the talkative said
    assert (claims["flower_seconds"].value, claims["flower_seconds"].holds) == (50, True)
    sooner = claims["flower_seconds_to_our_score"]
    assert (sooner.value, sooner.bound, sooner.holds) == (5, claims["flower_seconds"].bound, False)


def test_flowers_score_is_known_after_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its clients compute it: each trains, and the server takes the mean, weighted by rows."""
    work = DRAFTED[0]
    flower._lay_out(work, tmp_path / "flower")
    monkeypatch.setenv("FEDAVG_DATA", str(tmp_path / "flower"))
    found = by_round.accuracies(tmp_path / "flower", len(work.parties), 2, rounds=2)
    weights = mlp.initial_weights(*party.shape())
    for number in (1, 2):
        sent = [
            party.fit(index, weights, epochs=flower.EPOCHS, federated_round=number)
            for index in range(len(work.parties))
        ]
        weights = [
            np.average(
                np.stack([arrays[place] for arrays, _ in sent]), axis=0, weights=[rows for _, rows in sent]
            ).astype(np.float32)
            for place in range(4)
        ]
        assert found[number - 1] == pytest.approx(party.keep(0, weights)[0])


def test_the_first_round_that_is_as_good_is_counted_from_one() -> None:
    assert by_round.first_round([0.5, 0.8, 0.7, 0.9], 0.8) == 2
    assert by_round.first_round([0.5, 0.8], 0.81) is None
