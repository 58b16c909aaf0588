"""What people read and sign looks like what it is."""

from __future__ import annotations

import pytest

from protocol.texts import hidden_characters, is_formula, is_id, visible, why_not_new

HIDDEN = [*"\u061c\u200b\u2060\ufeff\u00ad\u180e\u200d\u3164\U000e0041\x1b\r"]


@pytest.mark.parametrize("character", HIDDEN)
def test_a_character_that_nobody_sees_is_named_and_spelt_out(character: str) -> None:
    name = f"U+{ord(character):04X}"
    assert hidden_characters(f"y{character}es") == [name]
    assert visible(f"y{character}es\n") == f"y<{name}>es\n"


@pytest.mark.parametrize("text", ["Étude pilote : 1\u00a0000 œufs", "東京大学", "مستشفى", "a\tb\nc"])
def test_what_people_see_stays_as_it_is(text: str) -> None:
    assert (hidden_characters(text), visible(text)) == ([], text)


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u3000"], ids=ascii)
def test_a_level_that_no_field_can_be_equal_to_is_not_published(blank: str) -> None:
    column = {"kind": "categorical", "name": f"{blank}site", "levels": ["north", f"south{blank}"]}
    (reason,) = why_not_new({"table_schema": {"columns": [column], "missing": [blank]}})
    assert reason.startswith("table_schema.columns.0.levels.1 has white space at an end")


@pytest.mark.parametrize("text", ["", "a" * 31, "a" * 33, "A" * 32, "g" * 32, "\u0661" * 32, "a" * 32 + "\n"])
def test_an_id_is_32_hexadecimal_digits(text: str) -> None:
    assert is_id("0123456789abcdef" * 2)
    assert not is_id(text)


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"])
def test_a_spreadsheet_computes_it(text: str) -> None:
    assert is_formula(text)


@pytest.mark.parametrize("text", ["-1", "+1.5", "-0,5", "+", "-", "yes", "a=b", "", "1-2"])
def test_a_spreadsheet_shows_it(text: str) -> None:
    assert not is_formula(text)


def content(**label: object) -> dict[str, object]:
    return {"title": "t", "purpose": "", "table_schema": {"columns": [{"name": "x"}], "label_column": label}}


def test_new_terms_have_no_text_that_deceives() -> None:
    assert list(why_not_new(content(classes=("no", "-1")))) == []
    (reason,) = why_not_new({**content(), "purpose": "Research.\n\nNothing leaves this institution."})
    assert "several lines" in reason
    assert list(why_not_new(content(classes=["no", "=1+1"]))) == [
        "table_schema.label_column.classes.1 begins with '=': a spreadsheet would compute it as a formula"
    ]
    changed = content(name="y\u200b")
    assert list(why_not_new(changed)) == [
        "table_schema.label_column.name has a character that nobody sees: U+200B"
    ]
