from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import InputError
from user_client.cli.options import refuse_to_overwrite, write_output


def test_a_file_that_exists_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    refuse_to_overwrite(path, force=False)
    path.write_text("patients")
    with pytest.raises(InputError, match="exists; name another with --out"):
        refuse_to_overwrite(path, force=False)
    refuse_to_overwrite(path, force=True)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*: No such file or directory"):
        write_output(tmp_path / "missing" / "out.csv", b"")
