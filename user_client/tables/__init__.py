"""From CSV and Parquet files to matrices, by the schema in the signed terms."""

from user_client.tables.draft import draft_schema
from user_client.tables.encode import (
    GROUPS,
    decode_numbers,
    encode_labels,
    encode_rows,
    strata,
    text_of,
    with_labels,
)
from user_client.tables.encoded import EncodedTable, all_misfits, encode_table
from user_client.tables.read import read_parts, read_table, table_from
from user_client.tables.write import OUTPUT, table_writer

__all__ = [
    "GROUPS",
    "OUTPUT",
    "EncodedTable",
    "all_misfits",
    "decode_numbers",
    "draft_schema",
    "encode_labels",
    "encode_rows",
    "encode_table",
    "read_parts",
    "read_table",
    "strata",
    "table_from",
    "table_writer",
    "text_of",
    "with_labels",
]
