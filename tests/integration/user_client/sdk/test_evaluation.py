"""Did it help us? What is kept back, what it is compared with, and what the analyst is told of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import report as reports
from protocol.errors import ConsentMissingError, InputError, OutOfOrderError
from protocol.messages import UplinkManifest
from tests.harness.in_process import COLUMNS, HOSPITAL, LEAD, Consortium, csv, rows
from tests.harness.nri import NRI
from user_client.custody.round_directory import EVALUATION_FILE, HOLD_OUT_FILE, LOCAL_MODEL_FILE
from user_client.errors import NothingKeptBackError, NotPreparedError
from user_client.privacy.picture import side_by_side
from user_client.sdk import PrivacyOptions, Round, draft_terms
from user_client.sdk.hold_out import kept_back, stored_hold_out
from user_client.secret.expansion import Matrix64

KEEPING: dict[str, Any] = {"terms_schema": 2, "hold_out": 0.25, "returns_scores": True}


def kept(ours: Round) -> list[int]:
    return [int(row) for row in kept_back(ours.directory)]


def labels_sent(ours: Round) -> int:
    return ours.directory.load(UplinkManifest).labels.shape[0]


# what is kept back


def test_the_share_of_the_terms_is_kept_back_from_every_class(consortium: Consortium) -> None:
    consortium.until_anchored(**KEEPING)
    prepared = consortium.hospital_round.prepare(consortium.table(1))
    found = kept(consortium.hospital_round)
    assert (prepared.held_out_rows, prepared.rows, prepared.table_rows) == (10, 30, 40)
    assert labels_sent(consortium.hospital_round) == 30
    assert [sum(row % 2 == each for row in found) for each in (0, 1)] == [5, 5]
    assert found == sorted(set(found))


def test_a_class_of_few_rows_is_sent_whole(consortium: Consortium) -> None:
    consortium.until_anchored(**KEEPING)
    few = ["yes"] * 4 + ["no"] * 36
    prepared = consortium.hospital_round.prepare(consortium.table(1, y=few))
    assert prepared.held_out_rows == 9
    assert min(kept(consortium.hospital_round)) >= 4


@pytest.mark.parametrize(("share", "rows_kept"), [(0.0, 0), (0.5, 20), (0.1, 4)])
def test_an_institution_may_keep_back_another_share(
    consortium: Consortium, share: float, rows_kept: int
) -> None:
    consortium.until_anchored(**KEEPING)
    prepared = consortium.hospital_round.prepare(consortium.table(1), PrivacyOptions(hold_out=share))
    assert (prepared.held_out_rows, prepared.rows) == (rows_kept, 40 - rows_kept)
    assert prepared.privacy == PrivacyOptions().record()  # the analyst is not told


@pytest.mark.parametrize("share", [-0.1, 0.51])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"between 0 and 0\.5"):
        PrivacyOptions(hold_out=share)


def test_the_same_table_keeps_its_choice_and_another_gets_one_of_its_own(consortium: Consortium) -> None:
    consortium.until_anchored(**KEEPING)
    ours = consortium.hospital_round
    ours.prepare(consortium.table(1))
    first = kept(ours)
    ours.prepare(consortium.table(1), threshold=0.3)  # measured anew
    assert kept(ours) == first
    ours.prepare(pa.table(rows(1)))  # the same rows, not in that file
    assert kept(ours) == first
    ours.prepare(consortium.table(2))
    assert kept(ours) != first


def test_rows_that_an_earlier_version_has_kept_back_are_kept_back(consortium: Consortium) -> None:
    consortium.until_anchored(hold_out=0.25)
    consortium.hospital_round.prepare(consortium.table(1))
    directory = consortium.hospital_round.directory
    kept, content = stored_hold_out(directory), json.loads(directory.read_secret(HOLD_OUT_FILE))
    assert kept is not None
    assert len(kept) == 10
    del content["rows_as_bits"]
    directory.write_secret(HOLD_OUT_FILE, json.dumps({**content, "rows": kept.rows.tolist()}).encode())
    again = stored_hold_out(directory)
    assert again is not None
    assert (again.table, again.share, again.rows.tolist()) == (kept.table, kept.share, kept.rows.tolist())


def test_a_table_that_cannot_be_sent_leaves_the_choice_of_the_one_before(consortium: Consortium) -> None:
    consortium.until_anchored(**KEEPING, latent_dim=2)
    ours = consortium.hospital_round
    ours.prepare(consortium.table(1))
    before = (ours.directory.read(HOLD_OUT_FILE), ours.directory.read(LOCAL_MODEL_FILE))
    with pytest.raises(InputError, match="of no row the projection drops"):
        ours.prepare(consortium.table(2), PrivacyOptions(drop_below=1.0))
    assert (ours.directory.read(HOLD_OUT_FILE), ours.directory.read(LOCAL_MODEL_FILE)) == before


def test_a_picture_shows_no_row_that_is_kept_back(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored(**KEEPING)
    consortium.hospital_round.prepare(consortium.table(1))
    drawn: list[int] = []

    def note(shown: Matrix64, *rest: Any) -> Any:
        drawn.append(len(shown))
        return side_by_side(shown, *rest)

    monkeypatch.setattr("user_client.sdk.pictures.side_by_side", note)
    consortium.hospital_round.draw_picture(consortium.table(1), (1, 3), count=100)
    assert drawn == [30]


# what it is compared with


def test_the_rows_kept_back_score_both_models(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(consortium.directory / "rows-1.csv")
    assert (found.rows, found.kept_back, found.metric) == (10, True, "roc_auc")
    assert found.local_fit is not None
    assert (found.local_fit.kind, found.local_fit.rows) == ("logistic", 30)
    assert found.alone is not None
    assert found.gain_low is not None
    assert found.gain_high is not None
    assert found.together > 0.9
    assert found.alone > 0.9
    assert found.of_rows == 10
    assert found.gain_low <= found.together - found.alone <= found.gain_high
    assert ours.evaluation == found
    assert consortium.json_of(consortium.hospital, EVALUATION_FILE)["verdict"] == found.verdict == "unclear"


def test_of_many_rows_some_drawn_at_random_are_scored(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    monkeypatch.setattr("user_client.sdk.evaluation.MOST_SCORED", 20)
    found = ours.evaluate(consortium.table(2))
    assert found.of_rows == 40
    assert 8 <= found.rows <= 32  # 20 on average, and hardly ever further from it
    assert ours.evaluate(consortium.table(2)) == found


def test_classes_are_scored_by_more_figures_that_stay_here(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(csv(consortium.directory / "new.csv", rows(5, 120)), send=True)
    assert found.together_in_classes is not None
    assert found.together_in_classes.bins is not None
    assert sum(one.rows for one in found.together_in_classes.bins) == 120
    assert found.together_in_classes.accuracy > 0.9
    assert found.together_in_classes != found.alone_in_classes
    assert ours.evaluation == found
    (shown,) = consortium.lead_round.report()["member_scores"]
    assert set(shown) == {"party", "received_at", *found.score}


def test_it_is_said_of_which_class_the_figures_are(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(csv(consortium.directory / "new.csv", rows(5, 120)))
    assert (found.of_class, found.without_rows) == ("yes", ())
    assert sum(one.rows for one in found.by_class.values()) == found.rows
    assert consortium.hospital_round.evaluation == found
    assert found.notes == ["PR-AUC and calibration are of the class yes"]
    assert ours.evaluation == found


def test_a_class_without_rows_is_named(consortium: Consortium) -> None:
    label = {"name": "y", "classes": ["no", "yes", "perhaps"]}
    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS]
    consortium.until_anchored(**KEEPING, table_schema={"columns": columns, "label_column": label})
    answers = ["no", "yes", "perhaps", "yes"] * 10
    for party, seed in ((consortium.lead_round, 1), (consortium.hospital_round, 2)):
        party.prepare(pa.table({**rows(seed), "y": answers}))
        party.contribute()
    consortium.compute()
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(pa.table(rows(5)))
    mean = "PR-AUC is the mean over the classes, and calibration of the likeliest one"
    assert found.notes == [mean, "no row here has the class perhaps: no mean over classes counts it"]
    assert ours.evaluate(pa.table({**rows(5), "y": answers})).notes == [mean]


def test_an_evaluation_of_an_earlier_version_is_still_read(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(consortium.directory / "rows-1.csv")
    stored = {
        key: value
        for key, value in found.to_json().items()
        if not key.endswith(("_in_classes", "_class", "_rows"))
    }
    ours.directory.write(EVALUATION_FILE, json.dumps(stored).encode())
    assert ours.evaluation is not None
    assert ours.evaluation.score == found.score
    assert ours.evaluation.together_in_classes is None


def test_the_same_rows_in_another_file_are_known_again(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    assert ours.evaluate(pa.table(rows(1))).kept_back


def test_rows_that_were_sent_are_left_out_of_another_table(consortium: Consortium) -> None:
    """Another export of it, in another order and with new rows: both models know the rows that were sent."""
    ours = consortium.until_released(**KEEPING).hospital_round
    ours.receive()
    exported, new = pa.table(rows(1)), pa.table(rows(77))
    found = ours.evaluate(pa.concat_tables([new, exported.take(list(range(39, -1, -1)))]))
    assert (found.kept_back, found.left_out, found.rows) == (False, 30, 40 + 10)
    again = ours.evaluate(new)
    assert (again.left_out, again.rows) == (0, 40)
    sent = [row for row in range(40) if row not in kept(ours)]
    with pytest.raises(NothingKeptBackError, match="all 30 rows of this table were sent"):
        ours.evaluate(exported.take(sent))


def test_of_another_table_all_rows_count(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(consortium.table(7))
    assert (found.rows, found.kept_back) == (40, False)


def test_a_collaboration_that_clearly_helps_is_said_to(consortium: Consortium) -> None:
    """One hospital's labels are noise; the others' rows tell it more than its own."""
    consortium.until_anchored(**KEEPING)
    noise = np.random.default_rng(0).permutation(["no", "yes"] * 20).tolist()
    consortium.lead_round.prepare(csv(consortium.directory / "many.csv", rows(0, 400)))
    consortium.hospital_round.prepare(consortium.table(1, y=noise))
    for session in consortium.sessions:
        session.round(consortium.id).contribute()
    consortium.compute()
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(csv(consortium.directory / "new.csv", rows(5, 200)))
    assert found.verdict == "gain"
    assert found.together > 0.95


def test_an_institution_of_one_class_has_nothing_to_compare_with(consortium: Consortium) -> None:
    consortium.until_anchored(**KEEPING)
    consortium.lead_round.prepare(consortium.table(0))
    prepared = consortium.hospital_round.prepare(consortium.table(1, y=["yes"] * 40))
    assert prepared.alone is None
    for session in consortium.sessions:
        session.round(consortium.id).contribute()
    consortium.compute()
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(consortium.directory / "rows-1.csv")
    assert (found.metric, found.alone, found.verdict) == ("accuracy", None, "no comparison")


def test_a_support_vector_machine_is_compared_with_the_default_model(consortium: Consortium) -> None:
    consortium.until_anchored(**KEEPING, model={"kind": "random-feature-svm"})
    alone = consortium.hospital_round.prepare(consortium.table(1)).alone
    assert alone is not None
    assert (alone.kind, alone.terms_kind) == ("averaged", "random-feature-svm")


def test_under_nri_the_model_of_our_own_is_evaluated_after_forgetting(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI, **KEEPING).compute()
    ours = consortium.hospital_round
    ours.receive()
    assert ours.examine().is_forgotten
    found = ours.evaluate(consortium.directory / "rows-1.csv")
    assert (found.rows, found.kept_back) == (10, True)
    assert ours.examine().is_forgotten


def test_where_nothing_was_kept_back_there_is_nothing_to_evaluate(consortium: Consortium) -> None:
    consortium.until_released()
    ours = consortium.hospital_round
    ours.receive()
    with pytest.raises(NothingKeptBackError, match="no row was kept back") as caught:
        ours.evaluate(consortium.directory / "rows-1.csv")
    assert "--hold-out" in caught.value.hint
    with pytest.raises(NothingKeptBackError, match="no rows"):
        ours.evaluate(pa.table({name: pa.array([], pa.string()) for name in rows(0)}))
    assert ours.evaluate(consortium.table(7)).rows == 40


def test_nothing_is_evaluated_before_it_is_received(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    with pytest.raises(NotPreparedError, match="odc receive"):
        consortium.hospital_round.evaluate(consortium.directory / "rows-1.csv")


def test_a_damaged_evaluation_is_none(consortium: Consortium) -> None:
    consortium.until_anchored()
    ours = consortium.hospital_round
    assert ours.evaluation is None
    ours.directory.write(EVALUATION_FILE, json.dumps({"rows": 3}).encode())
    assert ours.evaluation is None


# what the analyst is told


def test_a_score_that_is_sent_is_in_the_report_of_every_member(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    found = ours.evaluate(consortium.directory / "rows-1.csv", send=True)
    assert found.sent
    assert ours.evaluation == found
    (shown,) = consortium.lead_round.report()["member_scores"]
    assert (shown["party"], shown["rows"]) == (HOSPITAL, 10)
    assert shown["together"] == pytest.approx(found.together, abs=1e-4)
    assert shown["alone"] == pytest.approx(found.alone, abs=1e-4)
    again = ours.evaluate(consortium.table(7), send=True)
    (shown,) = reports.for_operator(consortium.analyst, consortium.id)["member_scores"]
    assert shown["rows"] == again.rows == 40


def test_a_score_that_was_not_sent_stays_here(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    assert not ours.evaluate(consortium.directory / "rows-1.csv").sent
    assert consortium.lead_round.report()["member_scores"] == []


def test_terms_that_do_not_say_so_let_no_score_out(consortium: Consortium) -> None:
    consortium.until_released(hold_out=0.25)
    ours = consortium.hospital_round
    ours.receive()
    with pytest.raises(ConsentMissingError, match="do not let") as caught:
        ours.evaluate(consortium.directory / "rows-1.csv", send=True)
    assert "without --send" in caught.value.hint
    assert ours.evaluation is None


def test_a_round_that_was_taken_back_keeps_the_result_and_says_that_it_was_not_sent(
    consortium: Consortium,
) -> None:
    consortium.until_released(**KEEPING)
    ours = consortium.hospital_round
    ours.receive()
    with consortium.analyst.records.begin(write=True) as unit:
        found = unit.collaboration(consortium.id)
        assert found is not None
        found.state = "failed"
    with pytest.raises(OutOfOrderError, match="send score"):
        ours.evaluate(consortium.directory / "rows-1.csv", send=True)
    assert ours.evaluation is not None
    assert not ours.evaluation.sent


def test_the_report_names_the_round_and_its_results(consortium: Consortium) -> None:
    consortium.until_released(**KEEPING)
    found = consortium.lead.round(consortium.id).report()
    assert (found["state"], found["latent_dim"], found["downlink"]) == (
        "released",
        3,
        "change-of-basis-and-model",
    )
    assert found["results"] is not None
    assert LEAD in found["results"]["alignment"]["party_gaps"]


def test_drafted_terms_ask_for_a_share_to_be_kept_back_and_let_scores_out(consortium: Consortium) -> None:
    drafted = draft_terms(consortium.table(1), label="y", parties=[LEAD, HOSPITAL], title="Readmission")
    assert (drafted.content["hold_out"], drafted.content["returns_scores"]) == (0.2, True)
