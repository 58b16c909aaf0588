"""What one connection packs and unpacks: docs/protocol.md, "Content coding"."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.coding import Coding
from protocol.identity import load_certificate
from protocol.limits import MAX_ANSWER_BYTES

log = logging.getLogger(__name__)

HEADER: Final = "content-encoding"


class Packing:
    """The coding of the analyst, known since its first answer, and ours, once the analyst has used its own.

    Parameters
    ----------
    certificate : Path, optional
        The certificate that we show; None packs no request.
    """

    def __init__(self, certificate: Path | None) -> None:
        self._own: Coding | None = None
        if certificate is not None:
            self._own = Coding.of(load_certificate(certificate.read_bytes()).public_bytes(Encoding.DER))
        self._certificate = b""
        self._theirs: Coding | None = None
        self._is_understood = False

    @property
    def offered(self) -> str:
        """What an answer may be packed with."""
        if self._theirs is None:
            return "gzip"
        return self._theirs.name if self._is_understood else f"gzip, {self._theirs.name}"

    def meet(self, response: httpx.Response) -> None:
        """Note with which certificate the analyst has answered."""
        stream = response.extensions.get("network_stream")
        tls = None if stream is None else stream.get_extra_info("ssl_object")
        shown = getattr(tls, "getpeercert", None)  # httpcore promises no type for what is here
        certificate = None if shown is None else shown(True)
        if certificate and certificate != self._certificate:
            self._certificate, self._theirs = certificate, Coding.of(certificate)

    def unpacked(self, headers: Mapping[str, str], body: bytes) -> bytes:
        """Return the body of an answer, unpacked if it was packed by the analyst's coding."""
        if self._theirs is None or headers.get(HEADER) != self._theirs.name:
            return body
        self._is_understood = True  # whoever packs like this unpacks it too
        if not body:  # to HEAD: it says how the body would come
            return body
        return self._theirs.unpack(body, MAX_ANSWER_BYTES)

    def packed(self, body: bytes) -> tuple[bytes, dict[str, str]]:
        """Return the body of a request, packed if that is understood and shorter, and what says so."""
        if self._own is None or not self._is_understood:
            return body, {}
        packed = self._own.pack(body)
        if len(packed) + self._own.header_bytes >= len(body):
            return body, {}
        return packed, {HEADER: self._own.name}

    def give_up(self) -> None:
        """Pack no request from now on."""
        self._is_understood, self._own = False, None
