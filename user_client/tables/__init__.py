"""From CSV and Parquet files to matrices, by the schema in the signed terms."""

from user_client.tables.draft import draft_schema
from user_client.tables.encode import (
    GROUPS,
    decode_numbers,
    encode_labels,
    encode_rows,
    misfits,
    strata,
    text_of,
    with_labels,
)
from user_client.tables.read import read_table, table_from

__all__ = [
    "GROUPS",
    "decode_numbers",
    "draft_schema",
    "encode_labels",
    "encode_rows",
    "misfits",
    "read_table",
    "strata",
    "table_from",
    "text_of",
    "with_labels",
]
