"""A part of a prediction: what one member of a group computes of its columns for another (docs/protocol.md).

A part is a file that members give each other; the analyst never gets one.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from protocol.codec import Message
from protocol.joined_rows import ROW_KEY_BYTES
from protocol.limits import MAX_LATENT_DIM, MAX_ROWS
from protocol.messages import Digest
from protocol.texts import Identifier, PartyName

MAGIC: Final = b"odc/v1/row-part\x00"
"""How every part begins."""
HEAD_LENGTH_BYTES: Final = 4
MAC_BYTES: Final = 32
MAX_PART_HEAD_BYTES: Final = 4096
"""A head has less than 500 bytes."""
NUMBER_BYTES: Final = 4


class RowPart(Message):
    """The head of a part: of which round and model it is, whose, and how much follows."""

    collaboration_id: Identifier
    terms_digest: Digest
    party: PartyName
    """Who has made it."""
    released: Digest
    """What the ledger says of the release."""
    rows: int = Field(ge=1, le=MAX_ROWS)
    latent_dim: int = Field(ge=1, le=MAX_LATENT_DIM)

    @property
    def payload_bytes(self) -> int:
        """Bytes of what follows the head: hashes, numbers and the MAC."""
        return self.rows * (ROW_KEY_BYTES + NUMBER_BYTES * self.latent_dim) + MAC_BYTES
