"""A downlink taken apart and put together again: another manifest, other arrays, another author."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from fake_analyst.between import Answer, Request
from fake_analyst.signers import Signer
from protocol.arrays import Layout, StreamReader, chunks_of, frame, little_endian, raw_bytes, specify
from protocol.codec import digest
from protocol.envelope import decode_stored
from protocol.messages import DownlinkManifest
from protocol.version import STREAM_MEDIA_TYPE

TAG: Final = '"of-a-fake-analyst"'
_FROM: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?")


@dataclass(frozen=True)
class Downlink:
    """A manifest and its arrays: the change of basis (l, l) and the model's bytes."""

    manifest: DownlinkManifest
    change: NDArray[Any]
    model: bytes

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Return what the true analyst sends, from the first byte on."""
        (length,) = struct.unpack_from("<I", data)
        manifest = decode_stored(DownlinkManifest, data[4 : 4 + length])
        arrays = [bytearray() for _ in manifest.arrays]
        for chunk in StreamReader(Layout(manifest.arrays, manifest.chunk_bytes)).feed(data[4 + length :]):
            arrays[chunk.slot.array] += chunk.data
        spec = manifest.change_of_basis
        change = np.frombuffer(bytes(arrays[0]), dtype=f"<{spec.dtype}").reshape(spec.shape)
        return cls(manifest, change, bytes(arrays[1]))

    def saying(self, **changes: Any) -> Self:
        """Return the same arrays with a manifest that says something else."""
        return replace(self, manifest=self.manifest.model_copy(update=changes))

    def with_change(self, change: NDArray[Any]) -> Self:
        return replace(self, change=change)._specified()

    def with_model(self, model: bytes) -> Self:
        return replace(self, model=model)._specified()

    def _specified(self) -> Self:
        old, size = self.manifest.change_of_basis, self.manifest.chunk_bytes
        specs = (
            specify(old.name, little_endian(self.change, old.dtype), old.dtype, size),
            specify("model", np.frombuffer(self.model, np.uint8), "u1", size),
        )
        return self.saying(arrays=specs)

    @property
    def digest(self) -> bytes:
        """The digest of the manifest, as an entry of the ledger names it."""
        return digest(self.manifest)

    def signed(self, signer: Signer) -> bytes:
        """Return all bytes of the downlink."""
        signed, size = signer.sign(self.manifest), self.manifest.chunk_bytes
        change = raw_bytes(little_endian(self.change, self.manifest.change_of_basis.dtype))
        stream = b"".join(
            bytes(piece)
            for array in (change, memoryview(self.model))
            for piece in frame(chunks_of(array, size))
        )
        return struct.pack("<I", len(signed)) + signed + stream


def in_parts(data: bytes, request: Request) -> Answer:
    """Return the answer to a request for these bytes: whole, a part, or the acknowledgement."""
    about = {"etag": TAG, "accept-ranges": "bytes", "content-type": STREAM_MEDIA_TYPE}
    if request.headers.get("if-none-match") == TAG:
        return Answer(304, {"etag": TAG})
    asked = _FROM.fullmatch(request.headers.get("range", ""))
    if asked is None or request.headers.get("if-range", TAG) != TAG:
        return Answer(200, about, data)
    first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
    if first >= len(data):
        return Answer(416, {"content-range": f"bytes */{len(data)}", "content-length": "0"})
    part = {**about, "content-range": f"bytes {first}-{last}/{len(data)}"}
    return Answer(206, part, data[first : last + 1])
