"""From CSV and Parquet files to matrices, by the schema in the signed terms."""

from user_client.tables.compared import remarks_on_distances, remarks_on_empty
from user_client.tables.dialect import PLAIN, Dialect, parse_dialect
from user_client.tables.draft import draft_schema
from user_client.tables.emptiness import are_wholly_empty, marked_rows
from user_client.tables.encode import (
    GROUPS,
    are_labelled,
    decode_numbers,
    encode_labels,
    encode_rows,
    strata,
    text_of,
    with_labels,
)
from user_client.tables.encoded import EncodedTable, encode_table
from user_client.tables.files import is_parquet
from user_client.tables.misfits import Misfit, find_misfits
from user_client.tables.profile import ColumnProfile, profile, strange_columns, strangeness
from user_client.tables.read import digest_of, gathered, is_query, read_parts, read_table, table_from
from user_client.tables.row_keys import RowKeys, beside, hashes_of, require_distinct
from user_client.tables.source import Source
from user_client.tables.write import OUTPUT, table_writer, without_formulas

__all__ = [
    "GROUPS",
    "OUTPUT",
    "PLAIN",
    "ColumnProfile",
    "Dialect",
    "EncodedTable",
    "Misfit",
    "RowKeys",
    "Source",
    "are_labelled",
    "are_wholly_empty",
    "beside",
    "decode_numbers",
    "digest_of",
    "draft_schema",
    "encode_labels",
    "encode_rows",
    "encode_table",
    "find_misfits",
    "gathered",
    "hashes_of",
    "is_parquet",
    "is_query",
    "marked_rows",
    "parse_dialect",
    "profile",
    "read_parts",
    "read_table",
    "remarks_on_distances",
    "remarks_on_empty",
    "require_distinct",
    "strange_columns",
    "strangeness",
    "strata",
    "table_from",
    "table_writer",
    "text_of",
    "with_labels",
    "without_formulas",
]
