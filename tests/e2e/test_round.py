"""Whole rounds with something particular about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from metering.formulas import uplink
from odc_demo.actors import CommandError
from protocol.codec import decode
from protocol.envelope import Signed, verify
from protocol.messages import DTYPE_BYTES, PrivacyRecord, UplinkManifest
from tests.harness.consortium import Consortium, consortium, rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("rounds"), "lead-hospital", "hospital-b", "consumer") as found:
        yield found


def test_a_consumer_without_rows_takes_part_and_predicts(made: Consortium) -> None:
    found = made.anchored(latent_dim=4)
    counts = {"lead-hospital": 80, "hospital-b": 80, "consumer": 0}
    for seed, (name, count) in enumerate(counts.items()):
        made.contribute(name, found, rows(seed, count))
    made.wait_for(found, "released")
    predicted = []
    for session in made.sessions.values():
        session.round(found).receive()
        predicted.append(session.round(found).predict(rows(7, 50)))
    right = np.array(predicted[-1].labels) == rows(7, 50).column("label").to_numpy()
    assert right.mean() > 0.85
    # the same model on the same rows, through bases of their own
    for other in predicted[:-1]:
        np.testing.assert_allclose(other.probabilities, predicted[-1].probabilities, atol=1e-4)


@pytest.mark.parametrize("rep_dtype", ["f2", "f8", "i1"])
def test_a_round_in_another_number_type_sends_its_bytes(made: Consortium, rep_dtype: Any) -> None:
    found = made.anchored(latent_dim=4, rep_dtype=rep_dtype)
    for seed, name in enumerate(made.names):
        receipt = made.contribute(name, found, rows(seed, 80))
        scales = 2 * 4 * 4 if rep_dtype == "i1" else 0
        assert receipt.payload_bytes == (80 + 4) * 4 * DTYPE_BYTES[rep_dtype] + 80 + scales
    made.wait_for(found, "released")
    fresh = rows(99, 200)
    for session in made.sessions.values():
        session.round(found).receive()
        right = np.array(session.round(found).predict(fresh).labels) == fresh.column("label").to_numpy()
        assert right.mean() > 0.85


def test_a_closed_round_leaves_no_array_at_the_analyst_and_predicts_on(made: Consortium) -> None:
    found = made.anchored(latent_dim=4)
    for seed, name in enumerate(made.names):
        made.contribute(name, found, rows(seed, 80))
    made.wait_for(found, "released")
    *others, last = made.sessions.values()
    for session in others:
        session.round(found).receive()
    with pytest.raises(CommandError, match=f"no downlink was fetched yet by {made.names[-1]}"):
        made.analyst.run("collaboration", "close", found)
    last.round(found).receive()
    assert made.arrays(found)
    made.analyst.run("collaboration", "close", found)
    assert not made.arrays(found)
    assert not (made.analyst.data_dir / "blobs" / found).exists()
    for session in made.sessions.values():
        assert len(session.round(found).predict(rows(7, 50)).labels) == 50
        assert session.round(found).status()["state"] == "closed"
    assert "formula (3)" in made.analyst.run("collaboration", "report", found)


@pytest.mark.parametrize(
    ("agreed", "says"),
    [
        ({"model": {"kind": "random-forest", "trees": 50}}, "100 rows"),
        ({"model": {"kind": "gradient-boosting", "trees": 50}}, "100 rows"),
        ({"model": {"kind": "logistic"}, "model_privacy": {"epsilon": 10.0, "delta": 1e-5}}, "epsilon 10"),
    ],
    ids=["forest", "boosting", "private"],
)
def test_every_institution_predicts_with_another_model(
    made: Consortium, agreed: dict[str, Any], says: str
) -> None:
    found = made.anchored(latent_dim=4, dither=0.5, rep_dtype="i1", **agreed)
    for seed, name in enumerate(made.names):
        made.contribute(name, found, rows(seed, 100))
    made.wait_for(found, "released")
    fresh = rows(99, 200)
    for session in made.sessions.values():
        session.round(found).receive()
        right = np.array(session.round(found).predict(fresh).labels) == fresh.column("label").to_numpy()
        assert right.mean() > 0.8
    assert says in made.analyst.run("collaboration", "report", found)


def test_an_uplink_is_formula_3_and_the_labels_within_one_percent(made: Consortium) -> None:
    session, shape = made.lead, {"n": 1000, "a": 1000, "l": 100, "m": 120}
    found = made.anchored(
        features=shape["m"], latent_dim=shape["l"], anchor={"kind": "uniform", "rows": shape["a"]}
    )
    prepared = session.round(found).prepare(rows(0, shape["n"], features=shape["m"]))
    formula = uplink(rows=shape["n"], anchor_rows=shape["a"], latent_dim=shape["l"], bits=32).total_bytes
    assert prepared.formula_bytes == formula == 800_000

    directory = session.home.collaboration(found)
    on_disk = (directory / "uplink.payload").stat().st_size
    manifest = decode(UplinkManifest, decode(Signed, (directory / "uplink.odc").read_bytes()).payload)
    in_manifest = sum(int(np.prod(spec.shape)) * DTYPE_BYTES[spec.dtype] for spec in manifest.arrays)
    assert manifest.rep.dtype == "f4"
    assert on_disk == in_manifest == prepared.payload_bytes
    labels = shape["n"]  # one byte each
    assert formula + labels <= on_disk <= 1.01 * (formula + labels)
    signed_and_digests = (directory / "uplink.odc").stat().st_size + 32 * 3
    assert on_disk + signed_and_digests <= 1.01 * (formula + labels)


def test_every_institution_says_by_command_what_it_has_gained(made: Consortium, tmp_path: Path) -> None:
    found = made.anchored(latent_dim=4, hold_out=0.25, returns_scores=True)
    counts = {"lead-hospital": 400, "hospital-b": 16, "consumer": 0}
    for seed, (name, count) in enumerate(counts.items()):
        pyarrow.csv.write_csv(rows(seed, count), tmp_path / f"{name}.csv")
    pyarrow.csv.write_csv(rows(7, 300), tmp_path / "new.csv")
    sent = {
        name: made.institution(name).odc(
            "contribute", "--yes", str(tmp_path / f"{name}.csv"), "-c", found, *more
        )
        for name, more in {"lead-hospital": (), "hospital-b": (), "consumer": ("--consumer",)}.items()
    }
    assert sent["lead-hospital"]["payload_bytes"] == (300 + 4) * 4 * 4 + 300
    made.wait_for(found, "released")
    made.run_all(made.names, "receive", "-c", found)
    own = made.institution("hospital-b").odc("evaluate", str(tmp_path / "hospital-b.csv"), "-c", found)
    assert (own["rows"], own["kept_back"], own["sent"]) == (4, True, False)
    with pytest.raises(CommandError, match="no row was kept back"):
        made.institution("consumer").odc("evaluate", str(tmp_path / "consumer.csv"), "-c", found)
    for name in ("hospital-b", "consumer"):
        made.institution(name).odc("evaluate", str(tmp_path / "new.csv"), "-c", found, "--send")
    shown = made.institution("lead-hospital").odc("report", "-c", found)
    assert shown["evaluation"] is None
    consumer, hospital = shown["report"]["member_scores"]
    assert (consumer["party"], consumer["rows"], consumer["alone"]) == ("consumer", 300, None)
    assert hospital["party"] == "hospital-b"
    assert hospital["gain_low"] <= hospital["together"] - hospital["alone"] <= hospital["gain_high"]
    assert "hospital-b has measured: ROC-AUC together" in made.analyst.run("collaboration", "report", found)


def flat(seed: int, count: int) -> pa.Table:
    """`rows` that nearly lie in three dimensions, the same for every party."""
    table = rows(seed, count)
    return table.set_column(3, "x3", pc.multiply(table.column("x3"), 0.2))


def test_a_round_with_noise_dropped_and_permuted_rows_says_so_and_predicts(
    made: Consortium, tmp_path: Path
) -> None:
    found = made.anchored(latent_dim=3)
    table = tmp_path / "rows.csv"
    pyarrow.csv.write_csv(flat(1, 400), table)
    hospital = made.institution("hospital-b")
    noise = ["--epsilon", "40", "--delta", "1e-5", "--clip", "1.5"]
    options = [*noise, "--drop-below", "0.05", "--permute-rows", "--perturb-basis", "0.05"]
    prepared = hospital.odc("prepare", str(table), "-c", found, *options, "--threshold", "0.05")
    assert 0 < prepared["rows"] < prepared["table_rows"] == 400
    assert prepared["threshold"]["rows_below"] == 0
    receipt = hospital.odc("contribute", "--yes", str(table), "-c", found, *options)
    assert receipt["payload_bytes"] == prepared["payload_bytes"]
    for seed, name in ((0, "lead-hospital"), (2, "consumer")):
        made.contribute(name, found, flat(seed, 400))
    made.wait_for(found, "released")

    with made.operator() as opened, opened.records.begin() as unit:
        (body,) = (row.manifest for row in unit.received_uplinks(found) if row.party == "hospital-b")
        manifest = verify(UplinkManifest, body, opened.root, at=opened.clock()).message
    assert manifest.privacy == PrivacyRecord(
        epsilon=40, delta=1e-5, clip=1.5, drop_below=0.05, permute_rows=True, perturb_basis=0.05
    )
    assert manifest.rep.shape == (prepared["rows"], 3)
    assert "epsilon 40" in made.analyst.run("collaboration", "report", found)

    fresh = flat(99, 200)
    for session in made.sessions.values():
        session.round(found).receive()
        right = np.array(session.round(found).predict(fresh).labels) == fresh.column("label").to_numpy()
        assert right.mean() > 0.8


def test_the_analyst_keeps_to_the_protocol_over_real_tls(made: Consortium) -> None:
    found = made.anchored(latent_dim=4)
    checks = made.institution("hospital-b").odc("conformance", "-c", found)["checks"]
    assert [one for one in checks if one["outcome"] == "failed"] == []
    skipped = [one["what"] for one in checks if one["outcome"] == "skipped"]
    assert skipped == ["the revocation list", "a part behind the end of a downlink"]  # there is neither yet
