"""Keyed hashes of what names a row, and of what members of a group give each other (docs/protocol.md).

The analyst compares hashes and has no key; every member of the round has the seed that the keys come from.
"""

from __future__ import annotations

import hmac
import re
import unicodedata
from typing import Final

from protocol.envelope import derive
from protocol.joined_rows import ROW_KEY_BYTES, JoinedRows

_WHOLE: Final = re.compile(r"(-?[0-9]+)\.0+")
_HASH_LABEL: Final = "odc/v1/row-keys"
_PART_LABEL: Final = "odc/v1/row-part"


def canonical_row_key(text: str) -> str:
    """Return the text that is hashed for a field: without white space around it, in NFC, and 1 for 1.0.

    Letters, zeros in front and signs stay: two texts that differ there name two rows.
    """
    found = unicodedata.normalize("NFC", text.strip())
    whole = _WHOLE.fullmatch(found)
    return whole[1] if whole else found


def hashing_key(seed: bytes, collaboration_id: str, group: JoinedRows) -> bytes:
    """Return the key of a group's hashes: in another group or round the same row has another hash."""
    return _derived(seed, _HASH_LABEL, collaboration_id, group)


def part_key(seed: bytes, collaboration_id: str, group: JoinedRows) -> bytes:
    """Return the key that proves that a part of a prediction comes from a member of this round."""
    return _derived(seed, _PART_LABEL, collaboration_id, group)


def row_hash(key: bytes, row_key: str) -> bytes:
    """Return the hash of a canonical row key."""
    return hmac.digest(key, row_key.encode(), "sha256")[:ROW_KEY_BYTES]


def _derived(seed: bytes, label: str, collaboration_id: str, group: JoinedRows) -> bytes:
    return derive(seed, "\0".join((label, collaboration_id, ",".join(group.parties))))
