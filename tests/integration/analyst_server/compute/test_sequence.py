"""A round as one function: what travels between its steps, and where its arrays lie."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from analyst_server.blobs import Blobs, DirectoryBlobs, MemoryBlobs, StoredArray, at_least_single, store_array
from analyst_server.compute.judging import Unjudged, judge_model
from analyst_server.compute.sequence import RoundResult, RoundSpec, compute_round
from analyst_server.compute.training_rows import training_parts
from analyst_server.services import downlinks, end, judging, rounds
from analyst_server.training import onnx_file
from protocol.alignment_terms import AlignmentTerms, AutoAlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.gaussian_mechanism import gaussian_sigma
from protocol.messages import PrivacyRecord
from protocol.model_terms import (
    GradientBoostingTerms,
    LogisticTerms,
    ModelPrivacyTerms,
    ModelTerms,
    RandomForestTerms,
)
from protocol.row_bounds import RowBounds
from protocol.terms import Terms
from runtime.terminal import training_in_words
from tests.harness.computing import claim, fetch
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

NRI = {"anchor": AnchorTerms(kind="gaussian", rows=20), "downlink": "anchor-predictions"}


@pytest.fixture(params=["directory", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, blobs=store(request.param, tmp_path))
    yield made
    made.records.dispose()


def store(kind: str, directory: Path) -> Blobs:
    return DirectoryBlobs(directory / "blobs") if kind == "directory" else MemoryBlobs()


def by_pickle(step: Any, /, *given: Any, **options: Any) -> Any:
    """Run a step as a process pool does: the store alone is not copied, so that one in memory will do."""
    spec, blobs, *others = given
    copied = pickle.loads(pickle.dumps([spec, *others]))  # noqa: S301  # our own
    return pickle.loads(pickle.dumps(step(copied[0], blobs, *copied[1:], **options)))  # noqa: S301


def computed(world: World, terms: Terms | None = None) -> RoundResult:
    world.until_sealed(terms)
    return compute_round(rounds.spec_of(world.analyst, world.id), world.analyst.blobs)


@pytest.mark.parametrize("terms", [{}, NRI], ids=["change of basis", "predictions"])
def test_a_round_goes_its_way_in_any_store(world: World, terms: dict[str, Any]) -> None:
    """From an upload that breaks off to the end of the round."""
    world.until_anchored(make_terms(**terms))
    world.send(make_uplink(world.terms, LEAD, seed=0))
    uplink = make_uplink(world.terms, HOSPITAL, seed=1)
    status = world.begin(uplink)
    reached = world.append(uplink, status.upload_id, data=uplink.stream[:-5])
    world.restart()
    assert world.begin(uplink).offset == reached > 0
    world.append(uplink, status.upload_id, reached)
    world.complete(uplink, status.upload_id)
    claim(world)
    rounds.compute(world.analyst, world.id, "worker-1", run=by_pickle)
    manifest, arrays = fetch(world, HOSPITAL)
    assert len(arrays[0]) == manifest.arrays[0].payload_bytes
    pieces = downlinks.fetch(world.analyst, identity(LEAD), world.id).pieces()
    end.close(world.analyst, world.id)
    assert sum(map(len, pieces)) > 0
    assert not world.analyst.blobs.exists(downlinks.result_key(world.id, manifest.arrays[0]))


def test_every_store_gives_the_same_result(tmp_path: Path) -> None:
    found = []
    for kind in ("directory", "memory"):
        (tmp_path / kind).mkdir()
        world = World(tmp_path / kind, blobs=store(kind, tmp_path / kind))
        result = computed(world)
        found.append(
            [
                result.as_json(),
                result.model.onnx_file.open(world.analyst.blobs).tobytes(),
                result.alignment.changes_of_basis.open(world.analyst.blobs).tobytes(),
            ]
        )
        world.records.dispose()
    assert found[0] == found[1]


def test_a_computation_writes_to_a_folder_of_its_own(world: World) -> None:
    """A worker that has lost its lease may still be writing."""
    world.until_sealed()
    one, other = (rounds.spec_of(world.analyst, world.id) for _ in range(2))
    assert one.folder != other.folder
    first = compute_round(one, world.analyst.blobs)
    compute_round(other, world.analyst.blobs)
    world.analyst.blobs.erase(other.folder)
    assert first.alignment.changes_of_basis.open(world.analyst.blobs).shape == (2, 2, 2)


def test_nothing_of_a_computation_is_left_once_its_model_is_judged(world: World) -> None:
    world.until_sealed()
    claim(world)
    folders: list[str] = []

    def run(step: Any, /, *given: Any, **options: Any) -> Any:
        folders.append(given[0].folder)
        return step(*given, **options)

    rounds.compute(world.analyst, world.id, "worker-1", run=run)
    assert judging.claim(world.analyst, "worker-1", 10) == world.id
    judging.compute(world.analyst, world.id, "worker-1", run=run)
    assert len(folders) == 3
    assert len(set(folders)) == 1
    for name in ("changes_of_basis", "model"):
        assert not world.analyst.blobs.exists(f"{folders[0]}/{name}")


def test_the_steps_are_called_in_order(world: World) -> None:
    world.until_sealed()
    called: list[str] = []

    def run(step: Any, /, *given: Any, **options: Any) -> Any:
        called.append(step.__name__)
        return step(*given, **options)

    spec = rounds.spec_of(world.analyst, world.id)
    compute_round(spec, world.analyst.blobs, run=run, on_aligned=lambda: called.append("aligned"))
    assert called == ["align_parties", "aligned", "train_model"]


def test_a_result_is_unpickled_without_the_libraries_of_the_steps(world: World) -> None:
    """They take seconds to load, and the server does without them."""
    pickled = pickle.dumps(computed(world))
    for room in (b"analyst_server.alignment", b"analyst_server.training", b"scipy", b"sklearn"):
        assert room not in pickled


def test_a_result_is_kept_as_json(world: World) -> None:
    found = computed(world).as_json()
    assert list(found) == [
        "rows",
        "model_parameters",
        "converged",
        "parity_gap",
        "hold_out_scores",
        "judgement",
        "alignment",
    ]
    assert list(found["alignment"]) == [
        "concordance_gap",
        "party_gaps",
        "spectrum_spread",
        "singular_values",
        "spectra",
        "span_angles",
        "suspicions",
        "left_out",
    ]
    assert set(json.loads(json.dumps(found))["alignment"]["party_gaps"]) == {LEAD, HOSPITAL}


@pytest.mark.parametrize("model", [RandomForestTerms(trees=20), GradientBoostingTerms(trees=20)])
def test_trees_do_not_depend_on_the_target_of_the_alignment(tmp_path: Path, model: ModelTerms) -> None:
    """They split along axes, and each target has others."""
    found = []
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        world = World(tmp_path / str(seed), blobs=MemoryBlobs())
        target = AlignmentTerms(method="isotropic", target="haar", seed=seed)
        result = computed(world, make_terms(model=model, alignment=target))
        changes = result.alignment.changes_of_basis.open(world.analyst.blobs)
        session = onnxruntime.InferenceSession(result.model.onnx_file.open(world.analyst.blobs).tobytes())
        row = np.array([[0.3, -0.2], [1.0, 0.5]]) @ changes[0]
        found.append((changes, session.run(["probabilities"], {"rep": row.astype(np.float32)})[0]))
        world.records.dispose()
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-5)


def test_a_private_model_says_what_it_spends_and_shows_no_score_of_its_rows(world: World) -> None:
    privacy = ModelPrivacyTerms(epsilon=3.0, delta=1e-5)
    found = computed(world, make_terms(model_privacy=privacy)).as_json()
    spent = found["model_privacy"]
    assert (spent["epsilon"], spent["delta"], spent["steps"], spent["clip"]) == (3.0, 1e-5, 100, 2.0)
    # 100 steps on all rows, in units of the clip
    assert spent["noise_multiplier"] == pytest.approx(gaussian_sigma(3.0, 1e-5, sensitivity=10.0), rel=2e-3)
    judgement = found["judgement"]
    assert (judgement["within"], judgement["across"], judgement["headline"]) == (None, None, None)
    assert "differentially private" in judgement["why_none"]


def test_nothing_is_measured_on_the_rows_of_a_private_model(world: World) -> None:
    privacy = ModelPrivacyTerms(epsilon=3.0, delta=1e-5)
    spec_rows: list[int] = []
    world.until_sealed(make_terms(model_privacy=privacy))
    spec = rounds.spec_of(world.analyst, world.id)
    measured = onnx_file.parity_gap

    def looked_at(fitted: Any, file: bytes, rows: Any) -> float:
        spec_rows.append(len(rows))
        return measured(fitted, file, rows)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(onnx_file, "parity_gap", looked_at)
        result = compute_round(spec, world.analyst.blobs)
    assert spec_rows == [1000]
    assert result.model.rows != 1000


def test_a_private_model_is_never_computed_twice_the_same(world: World) -> None:
    world.until_sealed(make_terms(model_privacy=ModelPrivacyTerms(epsilon=3.0, delta=1e-5)))
    files = []
    for _ in range(2):
        result = compute_round(rounds.spec_of(world.analyst, world.id), world.analyst.blobs)
        files.append(result.model.onnx_file.open(world.analyst.blobs).tobytes())
    assert files[0] != files[1]


@pytest.mark.parametrize("offset", [0, 3, 4097])
def test_an_array_is_found_at_any_place_of_a_blob(world: World, offset: int) -> None:
    array = np.arange(12, dtype="<f8").reshape(3, 4)
    world.analyst.blobs.write("folder/array", bytes(offset) + array.tobytes() + b"more")
    found = StoredArray("folder/array", offset, "f8", (3, 4)).open(world.analyst.blobs)
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable


def test_an_array_that_is_cut_off_is_an_error(world: World) -> None:
    world.analyst.blobs.write("folder/array", bytes(11))
    with pytest.raises(ValueError, match="multiple of element size"):
        StoredArray("folder/array", 0, "f4", (3,)).open(world.analyst.blobs)


# more rows than train


def small(world: World, terms: Terms | None = None, *, rows: int) -> RoundSpec:
    """Return the spec of a round of which only so many rows of two numbers train."""
    world.until_sealed(terms)
    return replace(rounds.spec_of(world.analyst, world.id), most_training_bytes=4 * 2 * rows)


def test_of_more_rows_than_are_trained_on_every_class_of_every_party_has_its_share(world: World) -> None:
    spec = small(world, rows=20)
    blobs = world.analyst.blobs
    sent = [party.labels.open(blobs) for party in spec.parties]
    assert sum(map(len, sent)) > 40
    parts = training_parts(spec, blobs, ())
    share = 20 / sum(map(len, sent))
    for part, labels in zip(parts, sent, strict=True):
        counts = np.bincount(labels, minlength=2)
        np.testing.assert_array_equal(
            np.bincount(part.labels(blobs), minlength=2), np.ceil(share * counts).astype(int)
        )
        assert part.numbers is not None
        assert (np.diff(part.numbers) > 0).all()
        np.testing.assert_array_equal(
            part.rep(blobs), at_least_single(blobs, part.arrays.rep, part.arrays.rep_scale)[part.numbers]
        )


def test_which_rows_train_a_private_model_follows_from_no_label(world: World) -> None:
    """A draw by class would be another one if one row had another label."""
    spec = replace(small(world, rows=20), model_privacy=ModelPrivacyTerms(epsilon=3.0, delta=1e-5))
    blobs, (first, *others) = world.analyst.blobs, spec.parties
    labels = first.labels.open(blobs).copy()
    labels[0] = 1 - labels[0]
    changed = replace(first, labels=store_array(blobs, f"{spec.folder}/changed", labels))
    neighbour = replace(spec, parties=(changed, *others))
    drawn, again = ([part.numbers for part in training_parts(each, blobs, ())] for each in (spec, neighbour))
    np.testing.assert_equal(drawn, again)
    by_class = [replace(each, model_privacy=None) for each in (spec, neighbour)]
    one, other = (training_parts(each, blobs, ())[1].numbers for each in by_class)
    assert not np.array_equal(np.array(one), np.array(other))


def test_the_same_rows_train_and_judge(world: World) -> None:
    spec = small(world, rows=20)
    first, again = ([part.numbers for part in training_parts(spec, world.analyst.blobs, ())] for _ in "12")
    np.testing.assert_equal(first, again)


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"model": RandomForestTerms(trees=5)},
        {"alignment": AutoAlignmentTerms(candidates=("isotropic", "odc"))},
        {"rep_dtype": "i1"},
        {"rep_dtype": "f8"},
    ],
    ids=["default", "trees", "auto", "i1", "f8"],
)
def test_a_model_of_some_rows_says_of_how_many(world: World, terms: dict[str, Any]) -> None:
    spec = small(world, make_terms(**terms), rows=30)
    found = compute_round(spec, world.analyst.blobs)
    judged = judge_model(spec, world.analyst.blobs, Unjudged.of(spec.folder, found))
    assert 30 <= found.model.rows <= 34  # a class of a party is rounded up
    assert found.model.of_rows == sum(party.rep.shape[0] for party in spec.parties)
    assert judged["within"] is not None
    (line, *_) = training_in_words(found.as_json())
    assert line.startswith(f"the model was trained on {found.model.rows} of {found.model.of_rows} rows")


def test_a_model_of_all_rows_says_nothing_of_it(world: World) -> None:
    found = computed(world)
    assert "of_rows" not in found.as_json()
    assert training_in_words(found.as_json()) == []


def with_wild_rows(world: World, *, dither: float) -> Any:
    """Compute a round in which the hospital sends two rows as long as its noise allows."""
    terms = make_terms(dither=dither, model=LogisticTerms())
    world.until_anchored(terms)
    privacy = PrivacyRecord(dither=dither or None)
    world.send(make_uplink(terms, LEAD, rows=60, seed=0, privacy=privacy))
    plain = make_uplink(terms, HOSPITAL, rows=60, seed=1).arrays[0].copy()
    longest = RowBounds.of(terms, HOSPITAL, privacy).largest["rep"]
    plain[:2] *= 0.99 * longest / np.linalg.norm(plain[:2], axis=1, keepdims=True)
    world.send(
        make_uplink(terms, HOSPITAL, rows=60, seed=1, arrays={"rep": plain.astype("<f4")}, privacy=privacy)
    )
    return compute_round(rounds.spec_of(world.analyst, world.id), world.analyst.blobs).model


def test_far_rows_are_brought_nearer_and_their_party_is_named(world: World) -> None:
    found = with_wild_rows(world, dither=3.0)
    assert found.as_json()["far_rows"] == {HOSPITAL: 2}
    assert training_in_words(found.as_json())[0].startswith(f"{HOSPITAL}: 2 rows far from all others")


def test_without_noise_no_row_is_far_because_none_can_be(world: World) -> None:
    assert "far_rows" not in with_wild_rows(world, dither=0.0).as_json()
