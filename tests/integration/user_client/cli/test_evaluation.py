"""`odc evaluate` and `odc report`: what a person reads; what each step does is tested in sdk/."""

from __future__ import annotations

import re

import pytest

from analyst_server.services import rounds
from tests.harness.in_process import HOSPITAL, LEAD, csv, rows
from tests.harness.odc import Odc
from user_client.sdk import PrivacyOptions

KEEPING = {"hold_out": 0.25, "returns_scores": True}
SCORES = (
    r"ROC-AUC together \d+\.\d %, alone \d+\.\d %, (gained \+|lost )\d+\.\d points"
    r" \(95 % interval [+-]\d+\.\d to [+-]\d+\.\d\), on \d+ rows"
)


def test_preparing_says_what_is_kept_back_and_what_it_is_for(odc: Odc) -> None:
    odc.consortium.until_anchored(**KEEPING)
    said = odc("prepare", odc.consortium.table(1)).out
    assert "30 rows of 3 encoded features" in said
    assert "10 of 40 rows stay here\n  10 of them are kept back, for `odc evaluate`" in said
    assert "a model of the kind logistic, fitted on 30 of our own rows is ready" in said
    found = odc("prepare", odc.consortium.table(1), "--hold-out", "0", "--json").json
    assert (found["held_out_rows"], found["options"]["hold_out"]) == (0, 0.0)
    assert "kept back" not in odc("prepare", odc.consortium.table(1), "--hold-out", "0").out


def test_another_share_is_not_lost_because_the_option_was_forgotten(odc: Odc) -> None:
    odc.consortium.until_anchored(**KEEPING)
    table = odc.consortium.table(1)
    odc("prepare", table, "--hold-out", "0.5")
    refused = odc("contribute", table)
    assert (refused.code, "the command line has none" in refused.err) == (3, True)
    assert odc("contribute", "--yes", "--json").json["payload_bytes"] == (20 + 3) * 3 * 4 + 20


@pytest.mark.parametrize("sent", [True, False])
def test_a_person_reads_together_alone_and_gained(odc: Odc, sent: bool) -> None:
    odc.consortium.until_released(**KEEPING)
    assert "odc evaluate TABLE" in odc("receive").out
    words = ("evaluate", "rows-1.csv", *(["--send"] if sent else []))
    said = odc(*words).out
    assert re.search(f"^{SCORES} kept back$", said, re.MULTILINE)
    assert "is unclear: the interval contains 0" in said
    assert "alone: a model of the kind logistic, fitted on 30 of our own rows" in said
    assert re.search(r"^together: PR-AUC \d+\.\d, accuracy \d+\.\d, Brier score 0\.\d+$", said, re.MULTILINE)
    assert ("every member reads them" in said, "nothing was sent" in said) == (sent, not sent)
    found = odc(*words, "--json").json
    assert (found["collaboration_id"], found["kept_back"], found["rows"]) == (odc.consortium.id, True, 10)
    assert (found["verdict"], found["sent"]) == ("unclear", sent)
    assert (found["together_in_classes"]["bins"], found["alone_in_classes"]["ece"]) == (None, None)


def test_too_few_rows_have_no_interval_and_are_told_why(odc: Odc) -> None:
    odc.consortium.until_released(**KEEPING)
    odc("receive")
    few = csv(odc.consortium.directory / "few.csv", rows(5, 8))
    said = odc("evaluate", few, "--send").out
    assert re.search(r"(gained \+|lost )\d+\.\d points \(too few rows for an interval\), on 8 rows", said)
    assert "whether that is a gain is unclear: an interval needs 10 rows, got 8\n" in said
    (sent,) = odc("report", "--json").json["report"]["member_scores"]
    assert (sent["gain_low"], sent["gain_high"]) == (-1, 1)
    found = odc("evaluate", few, "--json").json
    assert (found["gain_low"], found["gain_high"], found["verdict"]) == (None, None, "unclear")
    assert found["too_few"] == "an interval needs 10 rows, got 8"


def test_rows_enough_have_a_calibration_table_for_both_models(odc: Odc) -> None:
    odc.consortium.until_released(**KEEPING)
    odc("receive")
    new = csv(odc.consortium.directory / "new.csv", rows(5, 120))
    said = odc("evaluate", new).out
    figures = r"calibration error 0\.\d{3} \(0\.\d{3} by chance alone\)"
    table = r"  probabilities \(and what came of them\): 0\.\d{3} \(\d\.\d{3}\)(, \d\.\d{3} \(\d\.\d{3}\)){5}"
    for name in ("together", "alone"):
        assert re.search(f"^{name}: .*{figures}.*\n{table}$", said, re.MULTILINE)
    found = odc("evaluate", new, "--json").json
    assert [one["rows"] for one in found["together_in_classes"]["bins"]] == [20] * 6


def test_a_member_reads_how_much_a_private_model_may_tell(odc: Odc) -> None:
    private = {"terms_schema": 2, "model_privacy": {"epsilon": 3.0, "delta": 1e-5}}
    odc.consortium.until_released(**KEEPING, **private)
    assert "differentially private with epsilon 3 and delta 0.00001" in odc("terms", "show").out
    odc("receive")
    said = odc("report").out
    assert "  model privacy, epsilon: 3\n" in said
    assert "no score to expect for a new row: the model is differentially private" in said
    assert re.search(SCORES, odc("evaluate", "rows-1.csv").out)


def test_rows_of_another_table_are_said_to_be(odc: Odc) -> None:
    odc.consortium.until_released(**KEEPING)
    odc("receive")
    new = csv(odc.consortium.directory / "new.csv", rows(5, 60))
    said = odc("evaluate", new).out
    assert re.search(f"^{SCORES} of another table$", said, re.MULTILINE)
    assert "by their values, none of these rows was sent" in said


def test_what_cannot_be_evaluated_or_sent_ends_with_a_hint(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    nothing = odc("evaluate", "rows-1.csv")
    assert (nothing.code, "--hold-out 0.2" in nothing.err) == (3, True)
    unwanted = odc("evaluate", "rows-1.csv", "--send")
    assert (unwanted.code, "without --send" in unwanted.err) == (6, True)


def test_the_report_says_who_shares_a_model_in_words(odc: Odc) -> None:
    odc.consortium.until_released(terms_schema=2, model_groups={"largest_distance": 0.1})
    said = odc("report").out
    assert "no group has a model of its own: all have the model that was trained on all 80 rows" in said
    assert "groups:" not in said
    assert "each model was trained on uplinks of: " in odc("ledger", "fetch").out


def test_the_report_shows_what_both_sides_have_measured(odc: Odc) -> None:
    odc.consortium.until_released(**KEEPING)
    odc("receive")
    before = odc("report").out
    assert "Readmission: released, alignment isotropic, l = 3 of 3 features" in before
    assert "we have not evaluated it yet" in before
    assert "aligned, the institutions' anchors differ by " in before
    assert "parity" not in before
    assert re.search(r"rows held out inside the parties: ROC-AUC \d", before)
    assert "judgement" not in before
    odc("evaluate", "rows-1.csv", "--send")
    said = odc("report").out
    assert re.search(f"the institutions have measured:\n  {HOSPITAL}: {SCORES}", said)
    assert re.search(f"we have measured:\n  {SCORES} kept back", said)
    found = odc("report", "--json").json
    assert found["report"]["member_scores"][0]["party"] == HOSPITAL
    assert found["evaluation"]["sent"] is True


def test_a_member_that_never_sent_is_named_and_told_so(odc: Odc) -> None:
    made = odc.consortium.until_anchored()
    made.lead_round.prepare(made.table(0))
    made.lead_round.contribute()
    rounds.seal(made.analyst, made.id)
    made.compute()
    odc("receive", home=LEAD)
    without = f"without rows of {HOSPITAL}: no uplink of theirs is part of this round"
    assert without in odc("report", home=LEAD).out
    assert "next: the analyst has sealed the round without an uplink of ours" in odc().out


def test_the_report_of_a_round_under_way_is_short(odc: Odc) -> None:
    odc.consortium.until_anchored()
    assert odc("report", "--json").json["evaluation"] is None
    assert odc("report").out.startswith("Readmission: anchored")


def test_the_report_shows_what_a_choice_compared(odc: Odc) -> None:
    candidates = [{"kind": "logistic"}, {"kind": "logistic", "inverse_penalty": 0.01}]
    odc.consortium.until_released(terms_schema=2, model={"kind": "auto", "candidates": candidates})
    assert "these kinds: logistic)" in odc("terms", "show").out
    said = odc("report").out
    assert re.search(r"  the model is logistic.*, chosen of 2: ", said)
    assert re.search(r"    logistic, inverse_penalty 0.01: ", said)
    assert "choice" not in said


def test_the_report_shows_which_alignment_was_chosen(odc: Odc) -> None:
    odc.consortium.until_released(
        terms_schema=2, alignment={"method": "auto", "candidates": ["odc", "imakura"]}
    )
    assert "common representation (odc, imakura)" in odc("terms", "show").out
    said = odc("report").out
    assert re.search(r"  the alignment is (odc|imakura), chosen of 2 by the scores of logistic: ", said)
    assert re.search(r"    imakura: ", said)
    assert "alignment_choice" not in said


def test_a_member_reads_who_sends_fewer_numbers_of_a_row(odc: Odc) -> None:
    consortium = odc.consortium
    consortium.until_anchored(latent_dim=3, least_latent_dim=1, alignment={"method": "imakura"})
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.hospital_round.prepare(consortium.table(1), PrivacyOptions(latent_dim=2))
    consortium.hospital_round.contribute()
    consortium.compute()
    assert f"  {HOSPITAL} sends 2 numbers of a row, and the model takes 3\n" in odc("report").out
