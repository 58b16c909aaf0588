"""Tables from files: CSV (also compressed) and Parquet, or anything that speaks Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from protocol.errors import UnreadableFileError


def read_table(path: Path) -> pa.Table:
    """Read a table; the columns of a CSV file stay text, so that the schema alone says what they mean.

    Raises `UnreadableFileError`; the message never repeats what is in the file.
    """
    if not path.is_file():
        raise UnreadableFileError(path, "no such file")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            table: pa.Table = pyarrow.parquet.read_table(path)
            return table
        return _read_csv(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow quotes the offending line, which is a patient's
        raise UnreadableFileError(path, f"not a table ({type(error).__name__})") from None


def _read_csv(path: Path) -> pa.Table:
    with pa.input_stream(str(path), compression="detect") as file:
        header = pyarrow.csv.open_csv(file).schema.names
    as_text = dict.fromkeys(header, pa.string())
    with pa.input_stream(str(path), compression="detect") as file:
        table: pa.Table = pyarrow.csv.read_csv(
            file, convert_options=pyarrow.csv.ConvertOptions(column_types=as_text, strings_can_be_null=False)
        )
    return table


def table_from(data: Any) -> pa.Table:
    """Return a table for a path, an Arrow table, or a data frame (pandas, polars) in memory."""
    if isinstance(data, str | Path):
        return read_table(Path(data))
    table: pa.Table = data if isinstance(data, pa.Table) else pa.table(data)
    return table
