"""Rounds of sums: what leaves, what the analyst can make of it, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from analyst_server.services import rounds, views
from analyst_server.services.report import for_operator
from analyst_server.training.discriminant import NormalClasses
from analyst_server.training.from_sums import SumsRidge, fit_total
from analyst_server.training.tasks import Classes, Numbers
from protocol.envelope import decode_stored
from protocol.errors import InputError, MalformedMessageError, OutOfOrderError, SealBrokenError
from protocol.fixed_point import from_fixed_point, to_fixed_point
from protocol.messages import Acceptance, SealedAnchor, UplinkManifest
from protocol.operations import ACCEPT_TERMS, FETCH_ANCHOR
from protocol.states import State
from protocol.sums import exponent_of, order_of
from protocol.sums_noise import SumsNoise
from protocol.terms import Terms
from tests.harness.in_process import csv, rows
from tests.harness.sums import (
    BY_CLASS,
    NOISE,
    NOISY,
    NUMBERS,
    OTHER,
    PARTIES,
    RANDOM,
    SUMS,
    ThreeOfThem,
)
from user_client.custody.masks import MaskKey
from user_client.custody.round_directory import MASK_KEY_FILE, PAYLOAD_FILE
from user_client.errors import ConnectionFailedError, MaskedBeforeError
from user_client.sdk import PrivacyOptions, draft_terms, naming_sums, uplink, with_sums
from user_client.sdk.predictor import Predictor
from user_client.sdk.sums import stored_feature_map
from user_client.sdk.terms import check_table
from user_client.secret.sums import extended_sums, sums_by_class
from user_client.tables import encode_labels, encode_rows, table_from


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreeOfThem]:
    found = ThreeOfThem(tmp_path, monkeypatch)
    yield found
    found.close()


def sent_by(consortium: ThreeOfThem, party: str) -> NDArray[np.uint64]:
    session = consortium.sessions[PARTIES.index(party)]
    return np.frombuffer((consortium.directory_of(session) / PAYLOAD_FILE).read_bytes(), "<u8")


def pooled(consortium: ThreeOfThem, terms: Terms) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the encoded rows and labels of all institutions."""
    tables = [table_from(consortium.directory / f"rows-{seed}.csv") for seed in range(len(PARTIES))]
    return (
        np.concatenate([encode_rows(table, terms.table_schema) for table in tables]),
        np.concatenate([encode_labels(table, terms.table_schema) for table in tables]),
    )


@pytest.mark.parametrize("changed", [SUMS, RANDOM, NUMBERS], ids=["classes", "random features", "numbers"])
def test_predictions_are_those_of_the_same_model_on_all_rows_in_one_place(
    consortium: ThreeOfThem, changed: dict[str, Any]
) -> None:
    consortium.until_released(**changed)
    terms = consortium.hospital_round.terms
    label = terms.table_schema.label_column
    for session in consortium.sessions:
        session.round(consortium.id).receive()
    known, labels = pooled(consortium, terms)
    features = stored_feature_map(consortium.hospital_round.directory)
    total = extended_sums(known, labels, features, label.outputs)
    task = Classes(label.outputs) if terms.task == "classes" else Numbers(1.0)
    central = fit_total(SumsRidge(), total, terms.latent_dim, task)
    new = encode_rows(table_from(csv(consortium.directory / "new.csv", rows(77))), terms.table_schema)
    expected = central.predictions(features(new))
    for session in consortium.sessions:
        found = Predictor(session.round(consortium.id).directory).outputs(new)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["features alone", "random features"])
def test_sums_by_class_give_the_discriminant_of_all_rows_in_one_place(
    consortium: ThreeOfThem, kind: str
) -> None:
    more = {name: RANDOM[name] for name in ("latent_dim", "sums")} if kind == "random features" else {}
    consortium.until_released(**{**BY_CLASS, **more})
    for session in consortium.sessions:
        session.round(consortium.id).receive()
    terms = consortium.hospital_round.terms
    known, labels = pooled(consortium, terms)
    features = stored_feature_map(consortium.hospital_round.directory)
    central = NormalClasses().fit(sums_by_class(known, labels, features, 2))
    new = encode_rows(table_from(csv(consortium.directory / "new.csv", rows(77))), terms.table_schema)
    expected = central.predict_proba(features(new))
    for session in consortium.sessions:
        found = Predictor(session.round(consortium.id).directory).outputs(new)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="quadratic-discriminant has no coefficients"):
        consortium.hospital_round.coefficients()


def test_of_each_class_as_many_rows_are_needed_or_none(consortium: ThreeOfThem) -> None:
    consortium.until_anchored(**BY_CLASS)
    table = rows(1, 40)
    label = list(table)[-1]
    one, other = sorted(set(table[label]))
    terms = consortium.hospital_round.terms
    for few in (1, 4):
        table[label] = [one] * (40 - few) + [other] * few
        path = csv(consortium.directory / "few.csv", table)
        with pytest.raises(InputError, match=f"of class '{other}' .* sum of {few}"):
            consortium.hospital_round.prepare(path)
        (found,) = check_table(terms, path).misfits
        assert (found.code, found.fix[:33]) == ("too-few-rows", "ask the lead for the linear model")
        assert f"of class '{other}' this institution would send the sum of {few}" in found.detail
    table[label] = [one] * 40
    assert check_table(terms, table_from(pa.table(table))).misfits == []
    assert consortium.hospital_round.prepare(csv(consortium.directory / "none.csv", table)).rows == 40


@pytest.mark.parametrize("changed", [SUMS, RANDOM, BY_CLASS], ids=["linear", "random features", "by class"])
def test_the_exported_file_says_what_predict_says(consortium: ThreeOfThem, changed: dict[str, Any]) -> None:
    consortium.until_released(**changed)
    consortium.hospital_round.receive()
    exported = consortium.hospital_round.export()
    new = rows(77)
    session = onnxruntime.InferenceSession(exported.onnx_file)
    given = {each.name: np.array(new[each.name]).reshape(-1, 1) for each in session.get_inputs()}
    (found,) = session.run(["probabilities"], given)
    expected = consortium.hospital_round.predict(csv(consortium.directory / "new.csv", new))
    np.testing.assert_allclose(found, expected.probabilities, atol=1e-5)
    assert "secret coordinates of the sums" in exported.card
    assert "F_i G_i" not in exported.card


def test_the_masks_cancel_in_the_total_and_in_no_other_sum(consortium: ThreeOfThem) -> None:
    consortium.until_contributed(**SUMS)
    terms = consortium.hospital_round.terms
    assert terms.sums is not None
    order = order_of(terms.latent_dim, terms.table_schema.label_column)
    exponent = exponent_of(terms.sums, terms.table_schema, len(PARTIES))
    sent = {party: sent_by(consortium, party) for party in PARTIES}
    features = stored_feature_map(consortium.hospital_round.directory)
    known, labels = pooled(consortium, terms)
    expected = extended_sums(known, labels, features, 2)
    total = np.asarray(np.sum(list(sent.values()), axis=0, dtype=np.uint64))
    np.testing.assert_allclose(from_fixed_point(total, order, exponent), expected, atol=1e-9)
    for party in PARTIES:
        others = np.asarray(
            np.sum([sent[each] for each in PARTIES if each != party], axis=0, dtype=np.uint64)
        )
        for partial in (sent[party], others):
            # evenly spread over all 64 bits, as no sums over so few rows are
            bits = np.unpackbits(partial.view(np.uint8)).mean()
            assert 0.4 < bits < 0.6
            # one number may come near by chance, half of them may not
            assert np.median(np.abs(from_fixed_point(partial, order, exponent))) > len(known)


def test_with_noise_a_model_comes_back_that_is_good_enough(consortium: ThreeOfThem) -> None:
    consortium.until_released(**NOISY)
    found = []
    for session in consortium.sessions:
        session.round(consortium.id).receive()
        new = table_from(csv(consortium.directory / "new.csv", rows(77, 300)))
        encoded = encode_rows(new, consortium.hospital_round.terms.table_schema)
        outputs = Predictor(session.round(consortium.id).directory).outputs(encoded)
        labels = encode_labels(new, consortium.hospital_round.terms.table_schema)
        found.append(np.mean(outputs.argmax(axis=1) == labels))
    assert min(found) > 0.7
    assert len(set(found)) == 1


def noise_in(consortium: ThreeOfThem) -> NDArray[np.float64]:
    """Return what the total of a round differs by from that of the rows: 12 numbers of one deviation."""
    terms = consortium.hospital_round.terms
    assert terms.sums is not None
    order = order_of(terms.latent_dim, terms.table_schema.label_column)
    added = np.asarray(np.sum([sent_by(consortium, party) for party in PARTIES], axis=0, dtype=np.uint64))
    total = from_fixed_point(added, order, exponent_of(terms.sums, terms.table_schema, len(PARTIES)))
    known, labels = pooled(consortium, terms)
    features = stored_feature_map(consortium.hospital_round.directory)(known)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), NOISE["clip"])
    z = np.hstack([np.ones((len(known), 1)), features, np.eye(2)[labels]])
    found: NDArray[np.float64] = (total - z.T @ z)[1:4, 1:][np.triu_indices(3, m=5)]
    return found


def test_the_total_has_as_much_noise_as_its_terms_say(consortium: ThreeOfThem) -> None:
    consortium.until_contributed(**NOISY)
    noise = [noise_in(consortium)]
    for _ in range(2):
        consortium.publish(**NOISY)
        consortium.contribute_all()
        noise.append(noise_in(consortium))
    terms = consortium.hospital_round.terms
    expected = SumsNoise(**NOISE).in_total(terms.table_schema.label_column, len(PARTIES))
    # of 36 independent numbers chance brings neither end more often than once in a million runs
    assert 0.5 < np.sqrt(np.mean(np.square(noise))) / expected < 1.65
    for session in consortium.sessions:
        prepared = session.round(consortium.id).prepared
        assert prepared is not None
        assert prepared.sums_noise is not None
        assert prepared.sums_noise.deviation == pytest.approx(expected / np.sqrt(len(PARTIES)))


@pytest.mark.parametrize(
    ("changed", "expected"), [(SUMS, 8 * 6 * 7 / 2), (BY_CLASS, 2 * 8 * 4 * 5 / 2)], ids=["whole", "by class"]
)
def test_an_uplink_has_as_many_bytes_for_any_number_of_rows(
    consortium: ThreeOfThem, changed: dict[str, Any], expected: float
) -> None:
    consortium.until_anchored(**changed)
    sizes = set()
    for count in (60, 600):
        table = csv(consortium.directory / "table.csv", rows(1, count))
        prepared = consortium.hospital_round.prepare(table)
        assert prepared.rows == count
        sizes.add(prepared.payload_bytes)
    assert sizes == {expected}
    assert sizes == {prepared.formula_bytes}


def test_nothing_of_a_row_is_in_what_leaves(consortium: ThreeOfThem) -> None:
    consortium.until_contributed(**SUMS)
    manifest = consortium.hospital_round.directory.load(UplinkManifest)
    assert [spec.name for spec in manifest.arrays] == ["sums"]
    assert manifest.rows == 0
    report = for_operator(consortium.analyst, consortium.id)
    assert {party["rows"] for party in report["parties"]} == {None}
    status = views.status(consortium.analyst, None, consortium.id)
    assert {member["rows"] for member in status["members"]} == {None}


def test_the_report_says_that_nothing_was_aligned_and_why_there_is_no_headline(
    consortium: ThreeOfThem,
) -> None:
    consortium.until_released(**SUMS)
    report = for_operator(consortium.analyst, consortium.id)
    assert (report["uplink"], report["alignment"]) == ("sums", "none")
    assert report["results"] is not None
    assert report["results"]["rows"] == 120
    assert "alignment" not in report["results"]
    assert "only sums were sent" in (report["results"]["judgement"]["why_none"] or "")


def test_once_masked_sums_have_begun_to_leave_no_others_are_masked_alike(
    consortium: ThreeOfThem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object, **__: object) -> bytes:
        raise ConnectionFailedError("the line is cut")

    consortium.until_anchored(**SUMS)
    mine = consortium.hospital_round
    mine.prepare(consortium.table(1))
    mine.prepare(consortium.table(2))  # nothing has left
    plain = uplink.send_uplink  # type: ignore[attr-defined]  # imported there
    monkeypatch.setattr(uplink, "send_uplink", cut_off)
    with pytest.raises(ConnectionFailedError):
        mine.contribute()
    monkeypatch.setattr(uplink, "send_uplink", plain)
    with pytest.raises(MaskedBeforeError):
        mine.prepare(consortium.table(3))
    assert mine.prepare(consortium.directory / "rows-2.csv").rows == 40, "the same table again"
    mine.contribute()


@pytest.mark.parametrize(("count", "words"), [(4, "ask for 5 rows or more"), (1001, "room for 1000 rows")])
def test_too_few_rows_or_too_many_are_refused_at_home(
    consortium: ThreeOfThem, count: int, words: str
) -> None:
    consortium.until_anchored(**SUMS)
    path = csv(consortium.directory / "few.csv", rows(1, count))
    (found,) = check_table(consortium.hospital_round.terms, path).misfits
    assert words in found.detail
    with pytest.raises(InputError, match=words):
        consortium.hospital_round.prepare(path)
    assert not (consortium.directory_of(consortium.hospital) / PAYLOAD_FILE).exists()


def test_what_is_kept_back_counts_before_anybody_signs(consortium: ThreeOfThem) -> None:
    """Of 24 rows of a class 19 leave: one too few."""
    consortium.until_anchored(**{**BY_CLASS, "sums": {}}, terms_schema=2, hold_out=0.2)
    table = rows(1, 124)
    label = list(table)[-1]
    one, other = sorted(set(table[label]))
    for count, fits in ((24, False), (25, True)):
        table[label] = [one] * (124 - count) + [other] * count
        assert (check_table(consortium.hospital_round.terms, pa.table(table)).misfits == []) is fits


def test_a_draft_advises_sums_by_class_only_where_its_own_table_has_the_rows() -> None:
    table = rows(1, 124)
    label = list(table)[-1]
    one, other = sorted(set(table[label]))
    for count, fits in ((24, False), (25, True)):
        table[label] = [one] * (124 - count) + [other] * count
        drafted = draft_terms(pa.table(table), label=label, title="t", parties=PARTIES)
        advised = " ".join(naming_sums(drafted).remarks)
        assert "--uplink sums" in advised
        assert ("quadratic-discriminant" in advised) is fits
        asked = draft_terms(
            pa.table(table), label=label, title="t", parties=PARTIES, model="quadratic-discriminant"
        )
        cannot = [one for one in with_sums(asked, None).remarks if "cannot take part" in one]
        assert len(cannot) == (0 if fits else 1)


def test_options_on_rows_are_refused(consortium: ThreeOfThem) -> None:
    consortium.until_anchored(**SUMS)
    with pytest.raises(InputError, match="no row leaves under sums"):
        consortium.hospital_round.prepare(consortium.table(1), PrivacyOptions(permute_rows=True))


def test_the_round_does_not_go_on_without_an_institution(consortium: ThreeOfThem) -> None:
    consortium.until_anchored(**SUMS)
    for seed, session in enumerate(consortium.sessions[:2]):
        session.round(consortium.id).prepare(consortium.table(seed))
        session.round(consortium.id).contribute()
    with pytest.raises(OutOfOrderError, match=f"those of {OTHER} are missing"):
        rounds.seal(consortium.analyst, consortium.id)
    consortium.other.round(consortium.id).prepare(consortium.table(2))
    consortium.other.round(consortium.id).contribute()
    assert views.status(consortium.analyst, None, consortium.id)["state"] == State.SEALED


@pytest.mark.parametrize("changed", [SUMS, NOISY, BY_CLASS], ids=["exact", "with noise", "by class"])
def test_sums_under_the_masks_of_another_round_end_it_with_a_reason(
    consortium: ThreeOfThem, changed: dict[str, Any]
) -> None:
    consortium.until_anchored(**changed)
    for seed, session in enumerate(consortium.sessions):
        if session is consortium.other:  # masks that nobody else knows of
            key = session.round(consortium.id).directory.path / MASK_KEY_FILE
            key.write_bytes(np.random.default_rng(0).bytes(32))
        session.round(consortium.id).prepare(consortium.table(seed))
        session.round(consortium.id).contribute()
    with pytest.raises(ValueError, match="add up to no sum over rows"):
        consortium.compute()


@pytest.mark.parametrize("changed", ["another key", "no keys", "places exchanged"])
def test_keys_that_the_lead_did_not_commit_to_are_refused(consortium: ThreeOfThem, changed: str) -> None:
    """A lead that gives one member other keys cannot give it the same commitment."""
    consortium.until_anchored(**SUMS)
    answer = consortium.hospital.connection.ask(FETCH_ANCHOR, collaboration_id=consortium.id).content
    sealed = decode_stored(SealedAnchor, answer)
    lead, own, other = sealed.mask_keys
    keys = {
        "another key": (lead, own, MaskKey.generate().public_bytes()),
        "no keys": (),
        "places exchanged": (other, own, lead),
    }[changed]
    directory = consortium.hospital_round.directory
    directory.write(SealedAnchor, consortium.lead.sign(sealed.model_copy(update={"mask_keys": keys})))
    with pytest.raises(SealBrokenError, match="not those the lead committed to"):
        consortium.hospital_round.prepare(consortium.table(1))
    consortium.hospital_round.prepare(consortium.table(1))  # its own copy is fetched again


def test_the_key_of_the_masks_is_erased_with_the_receipt(consortium: ThreeOfThem) -> None:
    consortium.until_anchored(**SUMS)
    key = consortium.directory_of(consortium.hospital) / MASK_KEY_FILE
    consortium.hospital_round.prepare(consortium.table(1))
    assert key.exists()
    consortium.hospital_round.contribute()
    assert not key.exists()
    assert consortium.hospital_round.prepare(consortium.directory / "rows-1.csv").rows == 40


def test_an_acceptance_without_a_mask_key_is_refused(consortium: ThreeOfThem) -> None:
    consortium.until_joined().publish(**SUMS)
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    directory = consortium.hospital_round.directory
    acceptance = directory.load(Acceptance).model_copy(update={"mask_key": None})
    with pytest.raises(MalformedMessageError, match="a mask key goes with sums"):
        consortium.hospital.connection.ask(
            ACCEPT_TERMS, consortium.hospital.sign(acceptance), collaboration_id=consortium.id
        )


def test_fixed_point_holds_the_largest_total_that_terms_allow() -> None:
    terms = Terms.model_validate(
        {
            "consortium_id": "c0" * 16,
            "collaboration_id": "c1" * 16,
            "title": "Largest",
            "lead": PARTIES[0],
            "latent_dim": 3,
            "anchor": {"kind": "haar", "rows": 3},
            "table_schema": {
                "columns": [{"kind": "numeric", "name": f"x{i}", "low": -1, "high": 1} for i in range(3)],
                "label_column": {"name": "y", "classes": ["no", "yes"]},
            },
            **SUMS,
            "sums": {"max_rows": 1_000_000_000, "min_rows": 2},
        },
        strict=False,
    )
    assert terms.sums is not None
    exponent = exponent_of(terms.sums, terms.table_schema, len(PARTIES))
    z = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    most = np.outer(z, z) * terms.sums.max_rows
    total = np.asarray(np.sum([to_fixed_point(most, exponent) for _ in PARTIES], axis=0, dtype=np.uint64))
    np.testing.assert_allclose(from_fixed_point(total, len(z), exponent), most * len(PARTIES), rtol=1e-12)
