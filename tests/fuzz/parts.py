"""A target of the client: the file that another member of a group hands us, which may be anything."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Final

from protocol.absent_columns import AbsentColumns
from protocol.codec import digest, encode
from protocol.joined_rows import JoinedRows
from protocol.row_parts import MAC_BYTES, MAGIC, RowPart
from tests.fuzz.target import Target, outcome, stateless
from tests.harness.world import HOSPITAL, LEAD, SEED, make_terms
from user_client.errors import PartRefusedError
from user_client.sdk.parts import ForUs, mac_of

_TERMS: Final = make_terms(
    absent_columns=(
        AbsentColumns(party=LEAD, columns=("x2", "x3")),
        AbsentColumns(party=HOSPITAL, columns=("x0", "x1")),
    ),
    joined_rows=(JoinedRows(row_key="pid", parties=(LEAD, HOSPITAL), latent_dims=(1, 1), labels=LEAD),),
)
_OURS: Final = ForUs(SEED, _TERMS, LEAD, bytes(32))


def part(data: bytes) -> str:
    """Read a part; an odd first byte makes its MAC the right one, so that what is behind it is reached."""
    content = data[1:]
    if data[:1] and data[0] % 2:
        content = content[:-MAC_BYTES]
        content += mac_of(SEED, _TERMS.collaboration_id, _OURS.group, content)

    def read() -> str:
        found = _OURS.read(content, "a file")
        assert found.aligned.shape == (len(found.hashes), _TERMS.latent_dim)
        assert found.party == HOSPITAL
        return f"{min(len(found.hashes), 3)} rows"

    return outcome(read, PartRefusedError)


def part_seeds() -> Iterator[bytes]:
    for rows, party, released in ((1, HOSPITAL, 0), (3, HOSPITAL, 0), (2, LEAD, 0), (2, HOSPITAL, 1)):
        head = encode(
            RowPart(
                collaboration_id=_TERMS.collaboration_id,
                terms_digest=digest(_TERMS),
                party=party,
                released=bytes([released] * 32),
                rows=rows,
                latent_dim=_TERMS.latent_dim,
            )
        )
        hashes = b"".join(sorted(hashlib.sha256(bytes([row])).digest()[:16] for row in range(rows)))
        numbers = struct.pack(f"<{2 * rows}f", *range(2 * rows))
        whole = MAGIC + struct.pack("<I", len(head)) + head + hashes + numbers
        yield bytes([1]) + whole + bytes(MAC_BYTES)
        yield bytes([0]) + whole + bytes(MAC_BYTES)


TARGETS: Final = (Target("part", stateless(part), part_seeds, 1),)
