"""The content coding of small messages: deflate that begins with what both ends of a connection know.

Specified in docs/protocol.md, "Content coding". Most of a small message is the certificate of whoever sends
it and the names of its fields. Both ends have them already: the certificate since the handshake, the names
from the specification. What is unpacked is the same to the byte, and is verified as if it had come unpacked.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import Final, Self

from protocol.errors import LimitExceededError, MalformedMessageError

PREFIX: Final = "odc-"
_LONG_BYTES: Final = 2**16
_LEVEL_OF_LONG: Final = 4
"""Of zlib. Long is a ledger: its digests get no shorter, and the best level takes four times as long."""
WORDS: Final = "".join(
    f"{line}\n"
    for line in (
        "odc/v1/seen-ledger odc/v1/acceptance odc/v1/terms accept_row_revealing_model sealing_suite",
        "mlkem768-x25519 sealing_key shown_digest terms_digest seen alignment isotropic analyst_key anchor"
        " haar",
        "consortium_id change-of-basis-and-model latent_dim least_signal hidden_units inverse_penalty"
        " averaged",
        "learning_rate weight_penalty model_privacy parties purpose rep_dtype returns_scores table_schema",
        "columns empty centre kind ranks missing_share name quantiles label_column classes missing"
        " terms_schema",
        "title suspect party leave out rows begin uplink publish anchor seal begin alignment aligning",
        "begin training training release released fetch downlink",
        '{"invitation_id":"","state":"pending","certificate":null,"reason":null}',
        '{"collaborations":[{"collaboration_id":"","title":"","state":"enrolling","members":[{"party":"",'
        '"accepted":false,"anchor_ready":false,"uplink":"none","rows":null,"downlink":"none",',
        '"state":"anchored","state":"collecting","state":"released","accepted":true,"anchor_ready":true,'
        '"uplink":"received","rows":1,"downlink":"ready","excluded":false,"late_consumer":false,"refused":null,'
        '"rejected":null,"last_seen_at":1}],"waiting_for":[],"failure":null,"judging":true,"you":{"party":"",'
        '"role":"institution"}}',
        "entries at event publish terms index party previous state enrolling subject accept terms collecting",
        "accept uplink head certificate kind odc/v1/ledger-head payload at collaboration_id digest length",
        "signature",
    )
).encode()
"""What every dictionary begins with. Another text would be another coding, which is named otherwise."""


@dataclass(frozen=True)
class Coding:
    """Packs and unpacks what the holder of one certificate sends.

    Attributes
    ----------
    name : str
        Of the coding in ``Content-Encoding``: another dictionary has another name.
    """

    name: str
    dictionary: bytes = field(repr=False)

    @classmethod
    def of(cls, certificate: bytes) -> Self:
        """Return the coding of whoever has a certificate (DER)."""
        dictionary = WORDS + certificate
        return cls(PREFIX + hashlib.sha256(dictionary).hexdigest()[:8], dictionary)

    @property
    def header_bytes(self) -> int:
        """Return what it costs to say that a body is packed."""
        return len(f"content-encoding: {self.name}\r\n")

    def pack(self, data: bytes) -> bytes:
        """Return the data, packed."""
        level = zlib.Z_BEST_COMPRESSION if len(data) < _LONG_BYTES else _LEVEL_OF_LONG
        packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=self.dictionary)
        return packer.compress(data) + packer.flush()

    def unpack(self, packed: bytes, most_bytes: int) -> bytes:
        """Return the data, of ``most_bytes`` at most; no more memory than that is taken.

        Raises
        ------
        LimitExceededError
            If it is longer.
        MalformedMessageError
            If it was not packed like this, or is not complete.
        """
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS, zdict=self.dictionary)
        try:
            data = unpacker.decompress(packed, most_bytes + 1)
        except zlib.error:
            raise MalformedMessageError("packed body", "is not what its content coding says") from None
        if len(data) > most_bytes:
            raise LimitExceededError("unpacked body in bytes", most_bytes)
        if not unpacker.eof or unpacker.unused_data:
            raise MalformedMessageError("packed body", "does not end where its content coding says")
        return data
