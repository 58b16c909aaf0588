"""The commands of a round, from the anchor to the predictions; what each step does is tested in sdk/."""

from __future__ import annotations

import csv
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from analyst_server.services import exclusion, report
from protocol.messages import PrivacyRecord
from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc
from user_client.cli import main as main_module
from user_client.errors import ConnectionFailedError
from user_client.sdk import PrivacyOptions
from user_client.transport import AnalystConnection


def test_the_anchor_is_sealed_for_all(odc: Odc) -> None:
    odc.consortium.until_accepted()
    assert odc("anchor", "create", "--json", home=LEAD).json["sealed_for"] == 2


def test_preparing_says_what_would_leave(odc: Odc) -> None:
    odc.consortium.until_anchored(latent_dim=2)
    result = odc("prepare", odc.consortium.table(1))
    assert "40 rows of 3 encoded features become 2 numbers each" in result.out
    assert "of the length of a row the projection drops at least" in result.out
    assert "a row holds 16 bits, and what leaves of it can carry" in result.out
    assert "nothing was sent" in result.out


def test_preparing_a_table_that_does_not_fit_names_row_and_column(odc: Odc) -> None:
    odc.consortium.until_anchored()
    result = odc("prepare", odc.consortium.table(1, x1=[987654.0] * 40))
    assert result.code == 3
    assert "column 'x1', data row 1: expected a number from -4 to 4" in result.err
    assert "987654" not in result.err


NOISE = ("--epsilon", "2", "--delta", "1e-5", "--clip", "0.5")


def test_preparing_says_what_was_done_to_the_rows_and_what_stays_here(odc: Odc) -> None:
    odc.consortium.until_anchored(latent_dim=2)
    table = odc.consortium.table(1)
    found = odc("prepare", table, *NOISE, "--drop-below", "0.2", "--threshold", "0.4", "--json").json
    assert found["options"]["drop_below"] == 0.2
    assert found["noise_sigma"] == pytest.approx(PrivacyOptions(epsilon=2, delta=1e-5, clip=0.5).sigma)
    assert found["hidden_share"]["minimum"] >= 0.2
    assert len(found["singular_values"]) == 3
    said = odc("prepare", table, *NOISE, "--drop-below", "0.2", "--threshold", "0.4").out
    assert "epsilon 2 and delta 1e-05 for each row, clipped to length 0.5" in said
    assert f"{40 - found['rows']} of 40 rows stay here" in said
    assert f"of {found['threshold']['rows_below']} rows it is less than 0.4" in said
    assert "of the length of a noisy row the projection drops at least" in said
    assert "what the basis alone gives them differs from the row by" in said
    assert re.search(r"of 3 directions, the first \d carry half of .*, \d carry 90 % and \d carry 99 %", said)


@pytest.mark.parametrize("command", ["prepare", "contribute"])
def test_every_privacy_option_can_be_given(command: str, odc: Odc) -> None:
    found = main_module.app.commands[command].params
    assert {field.name for field in fields(PrivacyOptions)} < {parameter.name for parameter in found}
    assert "--permute-rows" in odc(command, "--help").out


@pytest.mark.parametrize("command", ["prepare", "contribute"])
def test_noise_by_halves_is_refused(odc: Odc, command: str) -> None:
    odc.consortium.until_anchored()
    result = odc(command, odc.consortium.table(1), "--epsilon", "2")
    assert (result.code, "epsilon, delta and clip go together" in result.err) == (3, True)


def test_contributing_a_table_takes_the_options_too(odc: Odc) -> None:
    odc.consortium.until_anchored()
    assert odc("contribute", "--yes", odc.consortium.table(1), *NOISE, "--permute-rows").code == 0
    (told,) = report.for_operator(odc.consortium.analyst, odc.consortium.id)["parties"]
    assert told["privacy"] == PrivacyRecord(epsilon=2, delta=1e-5, clip=0.5, permute_rows=True).model_dump()


def test_what_was_prepared_with_noise_is_not_sent_without_because_an_option_was_forgotten(odc: Odc) -> None:
    odc.consortium.until_anchored()
    table = odc.consortium.table(1)
    odc("prepare", table, *NOISE)
    refused = odc("contribute", table)
    assert (refused.code, "the command line has none" in refused.err) == (3, True)
    assert odc("contribute", "--yes").code == 0
    told: Any = report.for_operator(odc.consortium.analyst, odc.consortium.id)["parties"][0]
    assert told["privacy"]["epsilon"] == 2


def test_options_for_what_is_already_prepared_are_refused(odc: Odc) -> None:
    odc.consortium.until_anchored()
    odc("prepare", odc.consortium.table(1))
    result = odc("contribute", "--permute-rows")
    assert (result.code, "privacy options need the table" in result.err) == (3, True)


def test_a_picture_is_for_its_owner_alone_and_overwrites_nothing(odc: Odc) -> None:
    odc.consortium.until_anchored()
    asked = ("prepare", odc.consortium.table(1), "--picture", "rows.png", "--shape", "1x3")
    assert odc(*asked, "--json").json["picture"] == "rows.png"
    picture = odc.consortium.directory / "rows.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    if sys.platform != "win32":
        assert picture.stat().st_mode & 0o777 == 0o600
    again = odc(*asked)
    assert (again.code, "--force" in again.err) == (3, True)
    assert odc(*asked, "--force").code == 0
    assert picture.name not in str(sorted(odc.consortium.directory_of(odc.consortium.hospital).iterdir()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--picture", "p.png"), "must be given together"),
        (("--shape", "1x3"), "must be given together"),
        (("--picture", "p.png", "--shape", "3"), "HEIGHTxWIDTH"),
        (("--picture", "p.png", "--shape", "0x3"), "HEIGHTxWIDTH"),
        (("--picture", "p.png", "--shape", "2x3"), "a row has 3 features, a picture of 2 x 3 does not fit"),
        (("--picture", "rows-1.csv", "--shape", "1x3", "--force"), "is the table itself"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused(odc: Odc, given: tuple[str, ...], said: str) -> None:
    odc.consortium.until_anchored()
    result = odc("prepare", odc.consortium.table(1), *given)
    assert (result.code, said in result.err) == (3, True)
    assert not (odc.consortium.directory / "p.png").exists()


@pytest.mark.parametrize("prepared", [True, False])
def test_contributing_sends_the_table_or_what_is_prepared(odc: Odc, prepared: bool) -> None:
    odc.consortium.until_anchored()
    table = odc.consortium.table(1)
    if prepared:
        odc("prepare", table)
    result = odc("contribute", "--yes", *([] if prepared else [table]), "--json")
    assert result.json["payload_bytes"] == (40 + 3) * 3 * 4 + 40


def test_the_status_says_who_is_waited_for(odc: Odc) -> None:
    odc.consortium.until_anchored()
    assert f"waiting for {HOSPITAL}: odc contribute" in odc("status").out
    shown = odc("status", "--collaboration", odc.consortium.id, "--json").json
    assert (shown["party"], shown["collaborations"][0]["state"]) == (HOSPITAL, "anchored")


def test_an_excluded_institution_is_told_by_every_command(odc: Odc) -> None:
    odc.consortium.until_contributed()
    exclusion.exclude(odc.consortium.analyst, odc.consortium.id, HOSPITAL)
    odc.consortium.compute()
    told = odc("status").out
    assert f"excluded by the analyst's operator: {HOSPITAL}" in told
    assert "next: odc receive" not in told
    assert "next: odc receive" in odc("status", home=LEAD).out
    assert f"excluded by the analyst's operator: {HOSPITAL}" in odc("report", home=LEAD).out
    assert f"exclude party    {HOSPITAL}" in odc("ledger", "fetch", home=LEAD).out
    assert "operator has excluded hospital-a" in odc("receive").err


def test_the_status_of_many_rounds_reads_what_was_counted_as_often_as_that_of_one(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows with every round that there was."""
    odc.consortium.until_anchored()
    line = '{"kind": "control", "collaboration": "", "counter": "kernel", "sent": {}, "received": {}}'
    odc.consortium.hospital.home.traffic_path.write_text(line)
    counted, read, text_of = odc.consortium.hospital.home.traffic_path, list[Path](), Path.read_text

    def noted(path: Path, *given: Any, **options: Any) -> str:
        if path == counted:
            read.append(path)
        return text_of(path, *given, **options)

    monkeypatch.setattr(Path, "read_text", noted)
    assert len(odc("status", "--json").json["collaborations"]) == 1
    of_one, read[:] = len(read), []
    for _ in range(3):
        odc.consortium.hospital.round(odc.consortium.publish()).fetch_terms()
    assert len(odc("status", "--json").json["collaborations"]) == 4
    assert 0 < len(read) == of_one


def test_the_status_without_a_collaboration_says_so(odc: Odc) -> None:
    odc.consortium.until_joined()
    assert "no collaboration names this institution yet" in odc("status").out


def test_predictions_come_as_a_table(odc: Odc) -> None:
    odc.consortium.until_released()
    assert odc("receive", "--json").json["model_parameters"] > 0
    result = odc("predict", odc.consortium.table(5), "--out", "mine.csv", "--json")
    assert result.json == {"rows": 40, "predictions": "mine.csv"}
    with (odc.consortium.directory / "mine.csv").open() as file:
        found = list(csv.DictReader(file))
    assert set(found[0]) == {"prediction", "probability_no", "probability_yes"}
    assert all(
        float(row["probability_no"]) + float(row["probability_yes"]) == pytest.approx(1) for row in found
    )


def test_predictions_keep_the_columns_that_say_whose_they_are(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    numbers = [f"00{row}" for row in range(40)]
    table = odc.consortium.table(5, patient=numbers, ward=["a"] * 40)
    assert "the table has the column 'patient'" in odc("predict", table, "--keep", "patiens").err
    assert odc("predict", table, "--keep", "patient", "--keep", "ward").code == 0
    with (odc.consortium.directory / "predictions.csv").open() as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["patient", "ward", "prediction", "probability_no", "probability_yes"]
    assert [row["patient"] for row in found] == numbers


def test_rows_that_do_not_fit_may_be_skipped(odc: Odc, caplog: pytest.LogCaptureFixture) -> None:
    odc.consortium.until_released()
    odc("receive")
    table = odc.consortium.table(5, x1=["0.1"] * 38 + ["n.d.", ""])
    refused = odc("predict", table)
    assert refused.code != 0
    assert "column 'x1', data row 39: expected a number" in refused.err
    assert "correct the table and run the command again; --skip-unfit predicts for all rows" in refused.err
    found = odc("predict", table, "--skip-unfit", "--json")
    unfit = {"rows": 2, "by_column": {"x1": 2}}
    assert found.json == {"rows": 40, "predictions": "predictions.csv", "unfit": unfit}
    assert "2 of 40 rows do not fit the terms" in caplog.text
    assert "column 'x1' in 2 (data row 39, 40)" in caplog.text
    with (odc.consortium.directory / "predictions.csv").open() as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    assert [number for number, each in enumerate(predicted, 1) if not each] == [39, 40]


def test_a_table_of_which_no_row_fits_is_not_told_to_skip_them_again(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    found = odc("predict", odc.consortium.table(5, x1=["n.d."] * 40), "--skip-unfit")
    assert (found.code, "--skip-unfit" in found.err) == (3, False)


@pytest.mark.parametrize(
    ("column", "why"), [("nobody", "'nobody' is not in the table"), ("prediction", "rename it")]
)
def test_a_column_that_cannot_be_kept_is_named(odc: Odc, column: str, why: str) -> None:
    odc.consortium.until_released()
    odc("receive")
    result = odc("predict", odc.consortium.table(5, prediction=["x"] * 40), "--keep", column)
    assert result.code != 0
    assert why in result.err
    assert not (odc.consortium.directory / "predictions.csv").exists()


def test_predictions_go_to_parquet_or_to_the_output_of_the_program(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    table = odc.consortium.table(5)
    assert odc("predict", table, "--out", "mine.parquet").code == 0
    kept = pyarrow.parquet.read_table(odc.consortium.directory / "mine.parquet").to_pylist()
    of_this_name = odc.consortium.directory / "-"
    of_this_name.write_text("is none of ours")
    result = odc("predict", table, "--out", "-", "--threshold", "yes=0")
    found = list(csv.DictReader(result.out.splitlines()))
    in_csv, in_parquet = ([float(row["probability_yes"]) for row in each] for each in (found, kept))
    assert in_csv == pytest.approx(in_parquet, rel=1e-6)
    assert {row["prediction"] for row in found} == {"yes"}
    assert of_this_name.read_text() == "is none of ours"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--out", "-", "--json"], "leave one of them out"),
        (["--threshold", "yes"], "CLASS=PROBABILITY"),
        (["--threshold", "yes=0.3", "--threshold", "yes=0.4"], "more than once"),
        (["--threshold", "yes=often"], "CLASS=PROBABILITY"),
        (["--interval", "0.9"], "do not predict one"),
    ],
)
def test_options_of_a_prediction_that_mean_nothing_are_refused(
    odc: Odc, options: list[str], why: str
) -> None:
    odc.consortium.until_released()
    odc("receive")
    result = odc("predict", odc.consortium.table(5), *options)
    assert (result.code, why in result.err) == (3, True)
    assert not (odc.consortium.directory / "predictions.csv").exists()


def test_receiving_too_early_is_a_matter_of_time(odc: Odc) -> None:
    odc.consortium.until_contributed()
    assert odc("receive").code == 6


def test_a_line_that_is_down_ends_with_seven(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionFailedError("no answer")

    odc.consortium.until_joined()
    monkeypatch.setattr(AnalystConnection, "request", fail)
    assert odc("status").code == 7
