"""What an institution has sent is remembered, and rows that are sent again are named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

from protocol.terms import Terms
from tests.harness.in_process import Consortium, rows
from tests.harness.peaks import peak_bytes
from user_client.custody.home import Home
from user_client.custody.protection import protect
from user_client.custody.round_directory import OLD_RELEASE_FILE, PREPARED_FILE, RELEASE_FILE
from user_client.custody.scratch import Scratch
from user_client.sdk import PrivacyOptions, list_releases, releases
from user_client.sdk.releases import Overlap, SeenRows
from user_client.sdk.row_fingerprints import KEY_BYTES, texts_of
from user_client.tables import encode_table, read_table


def overlaps(home: Home, table: pa.Table, *, apart_from: str) -> list[Overlap]:
    """Return the overlaps of a table that comes in two parts."""
    seen = SeenRows(home, Scratch(home.path), apart_from=apart_from)
    for part in (table.slice(0, 7), table.slice(7)):
        seen.look(part, part)()
    return seen.overlaps()


def test_a_release_is_listed_once_the_analyst_has_it(consortium: Consortium) -> None:
    consortium.until_anchored(dither=0.5)
    consortium.hospital_round.prepare(consortium.table(1), PrivacyOptions())
    assert list(list_releases(consortium.hospital.home)) == []
    consortium.hospital_round.contribute()
    (release,) = list_releases(consortium.hospital.home)
    assert (release.rows, release.latent_dim, release.title) == (40, 3, "Readmission")
    assert release.privacy == {**PrivacyOptions().record().model_dump(), "dither": 0.5}
    assert release.analyst.startswith("https://")
    assert release.found["information"]["row_bits"] > 10


def test_rows_that_were_sent_are_known_again_in_any_order_of_rows_and_columns(consortium: Consortium) -> None:
    consortium.until_anchored()
    path = consortium.table(1)
    consortium.hospital_round.prepare(path)
    home = consortium.hospital.home
    table = read_table(Path(path))
    assert overlaps(home, table, apart_from="") == []  # nothing was sent yet
    consortium.hospital_round.contribute()
    assert overlaps(home, table, apart_from=consortium.hospital_round.id) == []
    half = table.take(np.arange(0, 40, 2)[::-1]).select(table.column_names[::-1])
    other = pa.table({name: list(map(str, values)) for name, values in rows(7, 30).items()})
    (found,) = overlaps(home, pa.concat_tables([half, other.select(half.column_names)]), apart_from="")
    assert found.rows == 20
    assert overlaps(home, other, apart_from="") == []
    assert overlaps(home, table.append_column("more", table["y"]), apart_from="") == []


def test_rows_are_known_again_in_a_file_of_another_kind(consortium: Consortium, tmp_path: Path) -> None:
    consortium.until_anchored()
    path = Path(consortium.table(1))
    consortium.hospital_round.prepare(path)
    consortium.hospital_round.contribute()
    again = tmp_path / "again.parquet"
    parquet.write_table(pa.csv.read_csv(path), again)
    assert pa.types.is_floating(read_table(again).schema.field("x0").type)
    (found,) = overlaps(consortium.hospital.home, read_table(again), apart_from="")
    assert found.rows == 40


def test_a_release_whose_summary_is_damaged_is_listed_without_it(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(consortium.table(1))
    consortium.hospital_round.contribute()
    (consortium.directory_of(consortium.hospital) / PREPARED_FILE).write_bytes(b'{"rows": 4')
    (release,) = list_releases(consortium.hospital.home)
    assert (release.rows, release.found) == (40, {"information": None, "attacks": None})


def test_rows_that_were_left_out_were_not_sent(consortium: Consortium) -> None:
    consortium.until_anchored(latent_dim=2)
    path = consortium.table(1)
    sent = consortium.hospital_round.prepare(path, PrivacyOptions(drop_below=0.02)).rows
    assert 0 < sent < 40
    consortium.hospital_round.contribute()
    (found,) = overlaps(consortium.hospital.home, read_table(Path(path)), apart_from="")
    assert found.rows == sent


def test_columns_that_are_no_text_tell_no_row(consortium: Consortium) -> None:
    consortium.until_anchored()
    table = read_table(Path(consortium.table(1)))
    odd = {"visits": pa.array([[1, 2]] * 40), "scan": pa.array([b"\xff"] * 40, pa.binary())}
    for name, values in odd.items():
        table = table.append_column(name, values)
    consortium.hospital_round.prepare(table)
    consortium.hospital_round.contribute()
    (found,) = overlaps(consortium.hospital.home, table, apart_from="")
    assert found.rows == 40


def test_a_copy_of_a_round_somebody_made_is_no_round(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(consortium.table(1))
    consortium.hospital_round.contribute()
    directory = consortium.directory_of(consortium.hospital)
    shutil.copytree(directory, directory.with_name(f"{directory.name} (copy)"))
    assert len(list(list_releases(consortium.hospital.home))) == 1


def test_what_is_kept_of_the_rows_does_not_tell_them(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(consortium.table(1))
    file = consortium.directory_of(consortium.hospital) / RELEASE_FILE
    key, stored = parts_of(file.read_bytes())
    assert len(stored) == 40
    assert (np.diff(stored.astype(object)) > 0).all()
    consortium.hospital_round.prepare(consortium.table(1, x0=[0.5] * 40))
    assert parts_of(file.read_bytes())[0] != key


def parts_of(kept: bytes) -> tuple[bytes, NDArray[np.uint64]]:
    """Return the key and the fingerprints of what is kept, behind eight bytes that say what they are of."""
    return kept[8 : 8 + KEY_BYTES], np.frombuffer(kept, "<u8", offset=8 + KEY_BYTES)


@pytest.mark.parametrize("name", [RELEASE_FILE, OLD_RELEASE_FILE])
def test_rows_that_an_earlier_version_has_kept_are_known_again(name: str, consortium: Consortium) -> None:
    consortium.until_anchored()
    path = consortium.table(1, x0=[f"{number / 100:.2f}" for number in range(40)])
    consortium.hospital_round.prepare(path)
    consortium.hospital_round.contribute()
    file = consortium.directory_of(consortium.hospital) / RELEASE_FILE
    key, texts = bytes(range(KEY_BYTES)), texts_of(read_table(Path(path)))
    numbers = np.sort(texts.fingerprints(key))
    file.unlink()
    if name == RELEASE_FILE:
        file.write_bytes(key + numbers.astype("<u8").tobytes())
    else:
        stored = {"key": key.hex(), "fingerprints": numbers.tolist()}
        (file.parent / name).write_text(json.dumps(stored))
    seen = SeenRows(consortium.hospital.home, Scratch(file.parent), apart_from="")
    schema = consortium.hospital_round.directory.load(Terms).table_schema
    encode_table(path, schema, Scratch(file.parent).keep, look=seen.look)
    (found,) = seen.overlaps()
    assert found.rows == 40


def test_a_row_counts_once_wherever_its_fingerprint_is_and_however_often_it_was_sent(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "SORTED_AT_ONCE", 7)
    monkeypatch.setattr(releases, "KEPT_AT_ONCE", 5)
    path = Path(consortium.table(1))
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *rows[:20], *rows[:2] * 10]) + "\n")
    consortium.until_anchored()
    assert consortium.hospital_round.prepare(path).repeated_rows == 20
    consortium.hospital_round.contribute()
    path.write_text("\n".join([header, *rows[10:], *rows[:1] * 3]) + "\n")
    (found,) = overlaps(consortium.hospital.home, read_table(path), apart_from="")
    assert found.rows == 10 + 3


@pytest.mark.parametrize("protected", [False, True])
def test_what_is_kept_of_many_rows_is_sorted_in_parts(
    protected: bool, consortium: Consortium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored()
    home, directory = consortium.hospital.home, consortium.hospital_round.directory
    if protected:
        protect(home, "a passphrase of the tests")
    seen = SeenRows(home, Scratch(tmp_path, in_memory_bytes=0), apart_from="")
    table = pa.table({"x": range(1_000_000)})
    for start in range(0, len(table), 10_000):
        part = table.slice(start, 10_000)
        seen.look(part, part)()
    leaving = np.random.default_rng(0).random(len(table)) < 0.8
    seen.store(directory, leaving)
    whole = directory.read_secret(RELEASE_FILE)
    _, numbers = parts_of(whole)
    assert len(numbers) == leaving.sum()
    assert np.all(numbers[1:] > numbers[:-1])
    monkeypatch.setattr(releases, "SORTED_AT_ONCE", 2**16)
    assert peak_bytes(lambda: seen.store(directory, leaving)) < len(whole) // 2 + 2**22 * protected
    assert directory.read_secret(RELEASE_FILE) == whole
