"""The cases of codings.json: bodies packed by the coding of a certificate.

They are written out here: another deflate packs the same body otherwise, and unpacks these all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.vectors.examples import Case

_CERTIFICATE: Final = bytes(range(64))
"""Any bytes will do: the coding does not look into a certificate."""
_NAME: Final = "odc-40af871c"
_STATUS: Final = (
    b'{"collaboration_id":"00112233445566778899aabbccddeeff","title":"Readmission within 30 days",'
    b'"state":"collecting","members":[{"party":"hospital-b","accepted":true,"anchor_ready":true,'
    b'"uplink":"none","rows":null,"downlink":"none"}],"failure":null,'
    b'"you":{"party":"hospital-b","role":"institution"}}'
)
_PACKED_STATUS: Final = (
    "c39ae00d0c0c0d8d8c8c8d4d4c4c4dcdcccccd2d2c2c2d13139392929381655f6a5a1a528608023a1c5c72e4e7299467"
    "96640033b4b181424a626531ae74892daf64e417170033748e6e12a9a994883c538b9976d0120b8af558930d00"
)
_SIGNED: Final = b"\x82\xabcertificate\xc4\x40" + _CERTIFICATE + b"\xa9signature\xc4\x02\x30\x00"
_PACKED_SIGNED: Final = "6b5a8de4b2230e941ab712eeb2234c060c00"


def codings() -> Iterator[Case]:
    """Yield bodies, and what they unpack to."""
    for name, packed, data in (
        ("a status", _PACKED_STATUS, _STATUS),
        ("a message that its holder has signed", _PACKED_SIGNED, _SIGNED),
        ("nothing", "0300", b""),
        ("not packed at all", "010400fbff" + _STATUS[:4].hex(), _STATUS[:4]),
    ):
        yield _case(name, packed) | {"valid": True, "data": data.hex()}
    for name, packed in (
        ("cut short", _PACKED_STATUS[:-2]),
        ("something after the end", f"{_PACKED_STATUS}00"),
        ("no deflate", "ff"),
        ("in gzip", "1f8b080000000000000303000000000000000000"),
        ("no byte", ""),
    ):
        yield _case(name, packed) | {"valid": False, "error": "malformed-message"}


def _case(name: str, packed: str) -> Case:
    return {"name": name, "certificate": _CERTIFICATE.hex(), "coding": _NAME, "packed": packed}
