"""Tables of other kinds than plain CSV, through the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.in_process import LEAD
from tests.harness.odc import Odc
from tests.harness.postgresql import PASSWORD, postgresql
from user_client.custody.round_directory import MANIFEST_FILE


def german(plain: Path) -> Path:
    """Write a table as a German Excel saves it."""
    path = plain.with_name(f"german-{plain.name}")
    text = plain.read_text().replace(",", ";").replace(".", ",")
    path.write_bytes(("größe;" + text.replace("\n", "\n1;").removesuffix("1;")).encode("windows-1252"))
    return path


WORDS = "semicolons,decimal-comma,windows-1252"


def test_a_guess_is_shown_and_what_leaves_is_the_same(odc: Odc) -> None:
    odc.consortium.until_anchored()
    plain = odc.consortium.table(1)
    from_plain = odc("prepare", plain, "--json")
    assert "is read with" not in from_plain.err
    from_german = odc("prepare", german(plain), "--json")
    assert f"is read with --csv {WORDS}, which is a guess" in from_german.err
    assert from_german.json["rows"] == 40
    assert from_german.json["signal"] == from_plain.json["signal"]
    assert from_german.json["singular_values"] == from_plain.json["singular_values"]


def test_what_is_said_is_not_shown_as_a_guess(odc: Odc) -> None:
    odc.consortium.until_anchored()
    table = german(odc.consortium.table(1))
    assert "is read with" not in odc("prepare", table, "--csv", WORDS).err
    said = f"is read with --csv {WORDS}, of which decimal-comma,windows-1252 is a guess"
    assert said in odc("prepare", table, "--csv", "semicolons").err
    wrong = odc("prepare", table, "--csv", "commas")
    assert wrong.code == 3
    assert "with commas it has one column, with semicolons 5" in wrong.err


def test_the_uplink_is_prepared_once_for_one_table_read_in_one_way(odc: Odc) -> None:
    odc.consortium.until_anchored()
    table = german(odc.consortium.table(1))

    def prepared(*words: str) -> bytes:
        odc("prepare", table, *words)
        return (odc.consortium.directory_of(odc.consortium.hospital) / MANIFEST_FILE).read_bytes()

    assert prepared() == prepared("--csv", WORDS)
    assert prepared() != prepared("--csv", f"{WORDS},no-thousands")


def test_predictions_are_written_as_their_table_is(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    plain, table = odc.consortium.table(1), german(odc.consortium.table(1))
    out, other = (odc.consortium.directory / name for name in ("plain.csv", "german.csv"))
    odc("predict", plain, "--out", out, "--keep", "x1")
    odc("predict", table, "--out", other, "--keep", "x1", "--keep", "größe")
    header, first = other.read_bytes().decode("windows-1252").splitlines()[:2]
    assert header.split(";")[:2] == ['"x1"', '"größe"']
    expected = [field.strip('"') for field in out.read_text().splitlines()[1].split(",")]
    found = [field.strip('"').replace(",", ".") for field in first.split(";")]
    assert [found[0], *found[2:]] == expected


def test_a_table_that_does_not_tell_its_decimal_mark_is_refused_with_the_option(odc: Odc) -> None:
    path = odc.consortium.directory / "rows.csv"
    path.write_text("x;y\n1.234;a\n2.345;b\n")
    refused = odc("terms", "draft", path, "--label", "y", "--party", LEAD)
    assert refused.code == 3
    assert "--csv decimal-comma or --csv decimal-point" in refused.err


def test_words_without_a_table_are_refused(odc: Odc) -> None:
    odc.consortium.until_anchored()
    refused = odc("contribute", "--csv", "tabs")
    assert refused.code == 3
    assert "go with a table" in refused.err


def test_a_table_of_postgresql_is_prepared_and_its_password_is_nowhere(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    odc.consortium.until_anchored()
    plain = odc.consortium.table(1)
    header = plain.read_text().split("\n")[0]
    query = odc.consortium.directory / "rows.sql"
    query.write_text("SELECT * FROM rows ORDER BY number")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with postgresql() as server:
        columns = ", ".join(f"{name} TEXT" for name in header.split(","))
        server.psql(
            f"CREATE TABLE rows ({columns}, number SERIAL);\n"
            f"COPY rows ({header}) FROM STDIN WITH (FORMAT csv, HEADER);\n{plain.read_text()}\\.\n"
        )
        asked = ("prepare", server.url, "--query", f"@{query}", "--json")
        found = odc(*asked)
        manifest = odc.consortium.directory_of(odc.consortium.hospital) / MANIFEST_FILE
        first = manifest.read_bytes()
        assert odc(*asked).code == 0
        assert manifest.read_bytes() == first  # the same rows are not prepared again
        server.psql("UPDATE rows SET x1 = '0.5' WHERE number = 1")
        odc(*asked)
        assert manifest.read_bytes() != first
    assert found.json["signal"] == odc("prepare", plain, "--json").json["signal"]
    home = odc.consortium.directory / "hospital-a"
    stored = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in stored + (found.out + found.err).encode()
    assert b"postgresql:" not in stored


def test_a_url_with_a_password_is_refused_before_anything_is_asked(odc: Odc) -> None:
    refused = odc("prepare", "postgresql://reader:hunter2@nowhere.invalid/db", "--query", "SELECT 1")
    assert refused.code == 3
    assert "has a password" in refused.err
    assert "hunter2" not in refused.err


def test_a_code_that_the_terms_take_for_a_number_is_named_for_people_and_counted_for_machines(
    odc: Odc,
) -> None:
    columns = [{"kind": "range", "name": name, "low": -4, "high": 4, "centre": 0} for name in ("x0", "x1")]
    schema = {"columns": columns, "label_column": {"name": "y", "classes": ["no", "yes"]}}
    odc.consortium.until_joined().publish(
        table_schema=schema, latent_dim=2, anchor={"kind": "haar", "rows": 2}
    )
    table = odc.consortium.table(1, x1=[-999, -999, *(index / 10 for index in range(38))])
    shown = odc("terms", "check", table)
    assert (shown.code, shown.out.startswith("warning: column 'x1': -999 is in 2 rows")) == (0, True)
    machine = odc("terms", "check", table, "--json")
    assert [(one["name"], one["coded"]) for one in machine.json["columns"]] == [("x0", 0), ("x1", 2)]
    assert "999" not in machine.out


def test_a_table_without_rows_or_of_one_class_is_warned_of(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    table = odc.consortium.table(1, y=["no"] * 40)
    said = odc("terms", "check", table).out
    assert "warning: all 40 rows have the same label: look at how it is written" in said
    table.write_text("x0,x1,x2,y\n")
    assert "warning: the table has no rows: who sends it gets" in odc("terms", "check", table).out


def test_rows_that_are_there_twice_are_warned_of_unless_there_are_few_different_ones(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    table = odc.consortium.table(1)
    assert "an earlier row" not in odc("terms", "check", table).out
    table.write_text(table.read_text() + "\n".join(table.read_text().splitlines()[1:4]) + "\n")
    assert "warning: 3 of 43 rows equal an earlier row in every column" in odc("terms", "check", table).out
    coarse = {name: [row % 2 for row in range(40)] for name in ("x0", "x1", "x2")}
    assert "an earlier row" not in odc("terms", "check", odc.consortium.table(2, **coarse)).out
