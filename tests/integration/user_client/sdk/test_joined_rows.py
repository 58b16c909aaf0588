"""Two institutions with different columns of the same rows: what leaves, what comes back, and parts."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from protocol.errors import InputError
from protocol.messages import UplinkManifest
from protocol.row_keys import canonical_row_key, hashing_key, row_hash
from tests.harness.halves import JOINING, of_hospital, of_lead, part, people, predicted, released
from tests.harness.in_process import HOSPITAL, LEAD, Consortium, rows
from user_client.custody.round_directory import PAYLOAD_FILE
from user_client.errors import (
    EmptyFieldError,
    NotPreparedError,
    PartRefusedError,
    PartsNeededError,
    PolicyError,
    RepeatedRowKeyError,
)
from user_client.sdk import Policy, PrivacyOptions, Round, check_table, draft_terms, next_step
from user_client.sdk.anchor import stored_seed
from user_client.sdk.doctor import examine
from user_client.sdk.joined_rows import own_group
from user_client.sdk.parts import JoinedPredictor, make_part
from user_client.sdk.uplink import stored_basis
from user_client.tables import encode_rows
from user_client.words import checked_in_words, summary_in_words


def arrays_of(found: Round) -> dict[str, NDArray[Any]]:
    """Return what was prepared, as it leaves."""
    data = io.BytesIO((found.directory.path / PAYLOAD_FILE).read_bytes())
    return {
        spec.name: np.frombuffer(data.read(spec.payload_bytes), f"<{spec.dtype}").reshape(spec.shape)
        for spec in found.directory.load(UplinkManifest).arrays
    }


def hashes_of(found: Round, table: pa.Table) -> dict[bytes, int]:
    """Return the number of the row that each hash is of."""
    group = own_group(found.directory)
    assert group is not None
    key = hashing_key(stored_seed(found.directory), found.id, group)
    names = [canonical_row_key(name) for name in table["pid"].to_pylist()]
    return {row_hash(key, name): number for number, name in enumerate(names)}


def basis_of(found: Round) -> NDArray[np.float64]:
    basis = stored_basis(found.directory)
    assert basis is not None
    return basis


def test_rows_leave_in_the_order_of_their_hashes_which_go_with_them(consortium: Consortium) -> None:
    consortium.until_anchored(**JOINING)
    for found, own in (
        (consortium.lead_round, of_lead(people(0))),
        (consortium.hospital_round, of_hospital(people(0))),
    ):
        prepared = found.prepare(own)
        sent, numbers = arrays_of(found), hashes_of(found, own)
        hashes = [bytes(row) for row in sent["row_keys"]]
        assert hashes == sorted(numbers)
        order, basis = [numbers[each] for each in hashes], basis_of(found)
        expected = encode_rows(own, found.terms.schema_of(found.party))[order] @ basis
        np.testing.assert_allclose(sent["rep"], expected, rtol=0, atol=1e-6)
        labels = [] if found.party == HOSPITAL else [order[i] % 2 for i in range(40)]
        assert sent["labels"].tolist() == labels
        assert sum(array.payload_bytes for array in prepared.arrays) == prepared.payload_bytes
        assert prepared.arrays[-1].name == "row_keys"
        assert (prepared.signal is None) == (found.party == HOSPITAL)


def test_rows_that_are_left_out_take_their_hashes_with_them(consortium: Consortium) -> None:
    two_of_one = {"latent_dim": 2, "joined_rows": [{**JOINING["joined_rows"][0], "latent_dims": [1, 1]}]}
    consortium.until_anchored(**{**JOINING, **two_of_one})
    found, own = consortium.lead_round, of_lead(people(0))
    prepared = found.prepare(own, PrivacyOptions(drop_below=0.3))
    sent, numbers = arrays_of(found), hashes_of(found, own)
    assert 0 < prepared.rows < 40
    assert len(sent["row_keys"]) == len(sent["rep"]) == len(sent["labels"]) == prepared.rows
    kept = [numbers[bytes(row)] for row in sent["row_keys"]]
    expected = encode_rows(own, found.terms.schema_of(LEAD))[kept] @ basis_of(found)
    np.testing.assert_allclose(sent["rep"], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (PrivacyOptions(permute_rows=True), "omit --permute-rows"),
        (PrivacyOptions(hold_out=0.2), "omit --hold-out"),
    ],
)
def test_options_that_would_unjoin_rows_are_refused(
    consortium: Consortium, options: PrivacyOptions, says: str
) -> None:
    consortium.until_anchored(**JOINING)
    with pytest.raises(InputError, match=says):
        consortium.lead_round.prepare(of_lead(people(0)), options)


def test_dither_and_noise_go_with_joined_rows(consortium: Consortium) -> None:
    consortium.until_anchored(**{**JOINING, "rep_dtype": "i1", "dither": 0.2})
    noisy = PrivacyOptions(epsilon=5.0, delta=1e-5, clip=1.0, dither=0.4)
    for found, own in (
        (consortium.lead_round, of_lead(people(0))),
        (consortium.hospital_round, of_hospital(people(0))),
    ):
        found.prepare(own, noisy)
        found.contribute()
    consortium.compute()
    assert consortium.lead_round.receive().change_of_basis.shape == (2, 3)


@pytest.mark.parametrize("kind", ["number", "survival", "multilabel"])
def test_the_labels_of_one_member_may_be_of_any_task(
    consortium: Consortium, tmp_path: Path, kind: str
) -> None:
    labels = {
        "number": {"kind": "number", "name": "days", "low": -20.0, "high": 20.0},
        "survival": {
            "kind": "survival",
            "name": "days",
            "event": "died",
            "seen": "yes",
            "censored": "no",
            "horizon": 20.0,
            "times": [5.0, 10.0],
        },
        "multilabel": {
            "kind": "multilabel",
            "labels": [{"name": name, "absent": "no", "present": "yes"} for name in ("y", "died")],
        },
    }
    model = {"number": "ridge", "survival": "cox", "multilabel": "logistic"}
    schema = {
        "columns": [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in ("x0", "x1", "x2")],
        "label_column": labels[kind],
    }
    consortium.until_anchored(**{**JOINING, "table_schema": schema, "model": {"kind": model[kind]}})
    table = people(0)
    rng = np.random.default_rng(0)
    days = np.abs(3 * np.array(table["x0"]) + 3 * np.array(table["x2"]) + rng.standard_normal(40))
    own = of_lead(table).append_column("days", pa.array(days)).append_column("died", table["y"])
    for found, rows_of_it in ((consortium.lead_round, own), (consortium.hospital_round, of_hospital(table))):
        assert not check_table(found.terms, rows_of_it, party=found.party).misfits
        found.prepare(rows_of_it, attacks="quick")
        found.contribute()
    consortium.compute()
    for found in (consortium.lead_round, consortium.hospital_round):
        found.receive()
    file = part(consortium.hospital_round, of_hospital(table), tmp_path / "part")
    assert predicted(consortium.lead_round, own, file).num_rows == 40


def test_the_doctor_asks_each_for_its_own_columns(consortium: Consortium, tmp_path: Path) -> None:
    consortium.until_anchored(**JOINING)
    for session, own in (
        (consortium.lead, of_lead(people(0))),
        (consortium.hospital, of_hospital(people(0))),
    ):
        path = tmp_path / f"{session.membership.party}.parquet"
        pyarrow.parquet.write_table(own, path)
        (found,) = [one for one in examine(session, path) if one.what == "table"]
        assert not found.fix
        pyarrow.parquet.write_table(own.drop_columns(["pid"]), path)
        (found,) = [one for one in examine(session, path) if one.what == "table"]
        assert "column 'pid' is not in the table" in found.detail


def test_a_row_without_a_key_or_with_that_of_another_is_refused_by_its_number(consortium: Consortium) -> None:
    consortium.until_anchored(**JOINING)
    names = people(0)["pid"].to_pylist()
    for changed, error, says in (
        ([*names[:7], None, *names[8:]], EmptyFieldError, "column 'pid', data row 8: the field is empty"),
        (
            [*names[:7], f" {names[2]}", *names[8:]],
            RepeatedRowKeyError,
            "column 'pid', data row 8: an earlier row",
        ),
    ):
        own = of_lead(people(0)).set_column(0, "pid", pa.array(changed))
        for act in (
            lambda own=own: consortium.lead_round.prepare(own),
            lambda own=own: check_table(consortium.lead_round.terms, own, party=LEAD),
        ):
            with pytest.raises(error, match=says) as caught:
                act()
            assert "name-of" not in str(caught.value)


def test_a_policy_may_forbid_even_hashes_of_a_column(consortium: Consortium) -> None:
    consortium.until_joined().publish(**JOINING)
    Policy(never=("pid",)).store(consortium.hospital.home)
    with pytest.raises(PolicyError, match="the column pid must never leave, and its hashes would"):
        consortium.hospital_round.accept()
    (consortium.hospital.home.policy_path).unlink()
    for found in (consortium.lead_round, consortium.hospital_round):
        found.accept()
    consortium.lead_round.create_anchor()
    consortium.hospital_round.prepare(of_hospital(people(0)))
    Policy(never=("pid",)).store(consortium.hospital.home)
    (said,) = consortium.hospital_round.policy_violations()  # as `odc prepare` and the pages show it
    assert said.startswith("the column pid must never leave, and its hashes would")
    with pytest.raises(PolicyError, match="the column pid must never leave, and its hashes would"):
        consortium.hospital_round.contribute()


def test_the_row_key_is_a_column_that_the_terms_use(consortium: Consortium) -> None:
    consortium.until_anchored(**JOINING)
    table = of_hospital(people(0)).append_column("more", pa.array(range(40)))
    checked = check_table(consortium.hospital_round.terms, table, party=HOSPITAL)
    assert checked.unused.columns == ("more",)
    assert (checked.signal, checked.misfits) == (None, [])
    text = "cannot tell how many dimensions their label needs"  # nobody asks that of rows without labels
    assert text not in checked_in_words(consortium.hospital_round.terms, checked)
    assert text not in summary_in_words(consortium.hospital_round.prepare(table))


@pytest.mark.parametrize("own", ["of others", "yes", ""])
def test_labels_that_another_sends_are_not_read_where_a_table_has_them(
    consortium: Consortium, own: str
) -> None:
    consortium.until_anchored(**JOINING)
    found = consortium.hospital_round
    table = of_hospital(people(0)).append_column("y", pa.array(["no"] * 20 + [own] * 20))
    checked = check_table(found.terms, table, party=HOSPITAL)
    assert (checked.misfits, checked.signal) == ([], None)
    assert not any("same label" in remark for remark in checked.remarks)
    assert found.prepare(table).signal is None
    assert not len(arrays_of(found)["labels"])


def test_a_member_needs_rows_to_join(consortium: Consortium) -> None:
    consortium.until_anchored(**JOINING)
    with pytest.raises(InputError, match="there is no round without rows of each of them"):
        consortium.lead_round.prepare(of_lead(people(0)).slice(0, 0))


def test_the_parts_add_up_to_what_the_model_takes(consortium: Consortium, tmp_path: Path) -> None:
    """With as many numbers as features nothing is lost: h sees a turn of whole rows, in either direction."""
    members, fresh = released(consortium), people(9, 200)
    by_lead = predicted(
        members[LEAD], of_lead(fresh), part(members[HOSPITAL], of_hospital(fresh), tmp_path / "a")
    )
    by_hospital = predicted(
        members[HOSPITAL],
        of_hospital(fresh),
        part(members[LEAD], of_lead(fresh), tmp_path / "b"),
        keep=("x2",),
    )
    assert by_lead.column_names == ["pid", "prediction", "probability_no", "probability_yes"]
    assert by_hospital.column_names[:2] == ["pid", "x2"]
    assert by_lead["pid"].to_pylist() == fresh["pid"].to_pylist()
    np.testing.assert_allclose(by_lead["probability_yes"], by_hospital["probability_yes"], rtol=0, atol=1e-6)
    right = np.array(by_lead["prediction"]) == np.array(fresh["y"])
    assert right.mean() > 0.95
    parts = (
        members[LEAD].predictor().align(of_lead(fresh)),
        members[HOSPITAL].predictor().align(of_hospital(fresh)),
    )
    whole = parts[0] + parts[1]
    terms = members[LEAD].terms
    encoded = encode_rows(fresh, terms.table_schema)
    # G is orthogonal, so lengths and angles of whole rows are kept
    np.testing.assert_allclose(whole @ whole.T, encoded @ encoded.T, rtol=0, atol=1e-5)


def test_rows_that_are_not_in_a_part_are_left_out_and_counted(
    consortium: Consortium, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    members, fresh = released(consortium), people(9, 30)
    file = part(members[HOSPITAL], of_hospital(fresh.slice(10)), tmp_path / "part")
    twice = pa.concat_tables([fresh, fresh.slice(25)])  # a key may be asked for again
    joined = JoinedPredictor(members[LEAD].directory, [file])
    found = pa.concat_tables(joined.predict_parts([of_lead(twice)]))
    assert found["pid"].to_pylist() == twice["pid"].to_pylist()[10:]
    assert joined.left_out == 10
    assert "10 of 35 rows are left out" in caplog.text
    assert "name-of" not in caplog.text
    with pytest.raises(PartsNeededError, match="no row of this table is in the parts of hospital-a"):
        predicted(members[LEAD], of_lead(people(3)), file)


def test_without_the_parts_it_is_said_whom_to_ask(consortium: Consortium) -> None:
    members, fresh = released(consortium), of_lead(people(9))
    with pytest.raises(PartsNeededError, match="needs the parts of hospital-a") as caught:
        JoinedPredictor(members[LEAD].directory, [])
    assert "odc part TABLE --out FILE" in caught.value.hint
    for act in (
        members[LEAD].predict,
        members[LEAD].explain,
        members[LEAD].coefficients,
        members[LEAD].evaluate,
    ):
        with pytest.raises(
            PartsNeededError, match="lead-hospital, hospital-a holds some of their columns alone"
        ):
            act(fresh)
    with pytest.raises(PartsNeededError, match="an exported model needs whole rows"):
        members[LEAD].export()
    step = next_step(members[LEAD].status(), members[LEAD].directory)
    assert (
        step.words == "odc predict TABLE --with FILE, with a file of odc part TABLE from each of hospital-a"
    )


def test_parts_are_of_this_round_whole_and_of_another_member(consortium: Consortium, tmp_path: Path) -> None:
    members, fresh = released(consortium), people(9, 5)
    good = part(members[HOSPITAL], of_hospital(fresh), tmp_path / "good")
    content, bad = good.read_bytes(), tmp_path / "bad"

    def refused(changed: bytes, says: str) -> None:
        bad.write_bytes(changed)
        with pytest.raises(PartRefusedError, match=says):
            predicted(members[LEAD], of_lead(fresh), bad)

    for place in range(60, len(content), 7):
        flipped = bytearray(content)
        flipped[place] ^= 4
        bad.write_bytes(flipped)
        with pytest.raises(PartRefusedError):
            predicted(members[LEAD], of_lead(fresh), bad)
    refused(content[:-1], "is not whole")
    refused(content[: len(content) - 40] + content[-32:], "is not whole")
    refused(content + b"x", "is not whole")
    refused(b"", "is no part of a prediction")
    refused(content[:16] + b"\xff\xff\xff\xff" + content[20:], "is no part of a prediction")
    refused(b"pid,x2\n", "is no part of a prediction")
    own = part(members[LEAD], of_lead(fresh), tmp_path / "own")
    refused(own.read_bytes(), "is a part of lead-hospital, not of one of hospital-a")
    with pytest.raises(InputError, match="second part of hospital-a"):
        predicted(members[LEAD], of_lead(fresh), good, good)


def test_after_forgetting_there_are_no_parts(consortium: Consortium) -> None:
    members = released(consortium)
    members[HOSPITAL].forget(confirmed=True)
    with pytest.raises(NotPreparedError):
        make_part(members[HOSPITAL].directory, [of_hospital(people(9))])


def test_whoever_has_whole_rows_has_no_parts(consortium: Consortium) -> None:
    consortium.until_released()
    consortium.lead_round.receive()
    with pytest.raises(InputError, match="our rows are joined with nobody's"):
        make_part(consortium.lead_round.directory, [pa.table(rows(1))])
    with pytest.raises(InputError, match="our rows are joined with nobody's"):
        JoinedPredictor(consortium.lead_round.directory, [Path("any")])


def test_a_real_table_in_two_halves_predicts_as_it_does_whole(consortium: Consortium, tmp_path: Path) -> None:
    """Breast cancer: means and errors at one institution, with the diagnosis; the worst values at another."""
    data = load_breast_cancer()
    names = [name.replace(" ", "_") for name in data.feature_names]
    columns = {name: data.data[:, index] for index, name in enumerate(names)}
    table = pa.table({**columns, "y": np.where(data.target == 1, "yes", "no")})
    drafted = draft_terms(
        table, label="y", parties=[LEAD, HOSPITAL], title="Breast", encoding="ranks"
    ).content
    schema = drafted["table_schema"]
    keyed = table.append_column("pid", pa.array([f"p-{number}" for number in range(len(table))]))
    train, fresh = keyed.slice(0, 400), keyed.slice(400)
    group = {"row_key": "pid", "parties": [LEAD, HOSPITAL], "latent_dims": [8, 4], "labels": LEAD}
    consortium.until_anchored(
        table_schema=schema,
        latent_dim=12,
        rep_dtype="i1",
        dither=0.5,
        anchor={"kind": "haar", "rows": 30},
        absent_columns=[{"party": LEAD, "columns": names[20:]}, {"party": HOSPITAL, "columns": names[:20]}],
        joined_rows=[group],
    )
    for found, held in (
        (consortium.lead_round, ["pid", "y", *names[:20]]),
        (consortium.hospital_round, ["pid", *names[20:]]),
    ):
        found.prepare(train.select(held))
        found.contribute()
    consortium.compute()
    for found in (consortium.lead_round, consortium.hospital_round):
        found.receive()
    file = part(consortium.hospital_round, fresh.select(["pid", *names[20:]]), tmp_path / "part")
    by_parts = predicted(consortium.lead_round, fresh.select(["pid", *names[:20]]), file)
    truth = np.array(fresh["y"]) == "yes"
    encoded = [encode_rows(some, consortium.lead_round.terms.table_schema) for some in (train, fresh)]
    central = LogisticRegression(max_iter=1000).fit(encoded[0], train["y"]).predict_proba(encoded[1])[:, 1]
    assert roc_auc_score(truth, by_parts["probability_yes"]) > roc_auc_score(truth, central) - 0.02
