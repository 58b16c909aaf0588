"""What a draft says of its columns and of its label: advice that can be followed, and no false alarm."""

from __future__ import annotations

import shlex

import numpy as np
import pyarrow as pa
import pytest

from user_client.tables import draft_schema


def remarks(table: dict[str, object], label: str = "y", **options: object) -> list[str]:
    return draft_schema(pa.table(table), label, **options).remarks  # type: ignore[arg-type]


def advised(said: list[str], option: str) -> str:
    """Return the value that a shell reads behind an option in the one remark that has it."""
    (remark,) = [one for one in said if option in one]
    words = shlex.split(remark[remark.index(option) :])
    return words[1].rstrip(",;")


RNG = np.random.default_rng(0)
YES_OR_NO = RNG.choice(["no", "yes"], 200).tolist()


class TestAdviceForAShell:
    def test_a_column_to_leave_out_is_one_word(self) -> None:
        table = {"no patient": list(range(1, 201)), "x": RNG.random(200), "y": YES_OR_NO}
        assert advised(remarks(table), "--exclude") == "no patient"

    def test_a_duration_is_one_word(self) -> None:
        table = {
            "date admission": [f"2024-01-{1 + day % 28:02}" for day in range(200)],
            "date sortie": [f"2024-02-{1 + day % 28:02}" for day in range(200)],
            "y": YES_OR_NO,
        }
        assert advised(remarks(table), "--duration") == "date sortie=date admission"

    def test_a_column_with_a_quote_is_one_word(self) -> None:
        services = [f"service {number % 6}" for number in range(194)] + [
            f"rare {number}" for number in range(6)
        ]
        assert (
            advised(remarks({"service d'entrée": services, "y": YES_OR_NO}), "--other") == "service d'entrée"
        )

    def test_a_text_for_an_empty_field_is_one_word(self) -> None:
        ages = [*np.tile([20.0, 30.5, 40.0, 51.0], 45), *[999.0] * 20]
        assert advised(remarks({"an age": ages, "y": YES_OR_NO}), "--missing-in") == "an age=999"


@pytest.mark.parametrize("seed", range(10))
def test_a_class_that_hardly_any_row_has_raises_no_alarm(seed: int) -> None:
    """Chance puts its one row before all others of a column, of ten: in about half of such tables."""
    rng = np.random.default_rng(seed)
    columns = {f"x{number}": rng.standard_normal(800) for number in range(10)}
    label = [*rng.choice(["a", "b"], 799), "c"]
    assert not [one for one in remarks({**columns, "y": label}) if "alone (ROC-AUC" in one]


def test_a_column_that_tells_one_of_three_classes_still_raises_one() -> None:
    label = np.repeat(["a", "b", "c"], 50)
    said = remarks({"x": np.where(label == "c", 5.0, 0) + RNG.random(150), "y": label})
    assert [one for one in said if one.startswith("x: predicts the label alone")]


class TestClasses:
    @pytest.mark.parametrize(("most", "is_said"), [(5, False), (17, True)])
    def test_that_are_many_numbers_may_be_numbers_to_predict(self, most: int, is_said: bool) -> None:
        said = remarks({"x": RNG.random(170), "y": [number % most for number in range(170)]})
        assert bool([one for one in said if "draft again with --task number" in one]) is is_said

    def test_that_are_many_words_may_not(self) -> None:
        said = remarks({"x": RNG.random(170), "y": [f"ward {number % 17}" for number in range(170)]})
        assert not [one for one in said if "--task number" in one]

    def test_the_second_of_two_is_named_where_most_rows_have_it(self) -> None:
        said = remarks({"x": RNG.random(200), "y": ["YES"] * 14 + ["no"] * 186})
        (remark,) = [one for one in said if "second class" in one]
        assert remark.startswith(
            "y: PR-AUC, calibration and coefficients are of the second class, no, which 93 %"
        )
        assert "if YES is the one to find, exchange the two in `classes`" in remark

    @pytest.mark.parametrize(
        "label", [["no"] * 186 + ["yes"] * 14, ["no", "yes"] * 100, ["no"] * 90 + ["yes"] * 110]
    )
    def test_a_second_class_that_few_have_or_about_a_half_is_not(self, label: list[str]) -> None:
        assert not [one for one in remarks({"x": RNG.random(200), "y": label}) if "second class" in one]


class TestCapitals:
    def test_of_levels_are_named(self) -> None:
        said = remarks({"x": RNG.choice(["oui", "Oui", "OUI", "non"], 200), "y": YES_OR_NO})
        (remark,) = [one for one in said if "capitals" in one]
        assert remark.startswith("x: OUI, Oui and oui differ in capitals alone, and are 3 levels;")

    def test_of_classes_are_named(self) -> None:
        said = remarks({"x": RNG.random(200), "y": RNG.choice(["M", "m", "f"], 200)})
        assert [
            one for one in said if one.startswith("y: M and m differ in capitals alone, and are 2 classes;")
        ]

    def test_of_levels_that_a_person_has_put_in_order_are_not(self) -> None:
        table = {"x": RNG.choice(["a", "A", "b"], 200), "y": YES_OR_NO}
        assert not [one for one in remarks(table, ordinals={"x": ["a", "A", "b"]}) if "capitals" in one]
