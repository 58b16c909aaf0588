"""Verify an archive of evidence with Python, `cryptography` and `msgpack` alone.

::

    python verify_evidence.py ARCHIVE.zip --root FINGERPRINT [--revocations LIST.crl]

`odc evidence` makes such archives, and `odc evidence --verifier` prints this file, which imports none of the
packages beside it. FINGERPRINT is that of the consortium's root, from somebody you trust. The numbered steps
are those of docs/protocol.md, "Archive of evidence", so that another program can do the same.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import struct
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import PolicyBuilder, Store

INDEX = "index.odc"
SIGNERS = {
    "terms": "analyst",
    "acceptance": "party",
    "uplink": "party",
    "receipt": "analyst",
    "downlink": "analyst",
    "forgotten": "party",
}
OURS = {"accept terms": "acceptance", "accept uplink": "uplink", "fetch downlink": "downlink"}
"""Steps in a ledger, and the file that each is about."""


class NotVerifiedError(Exception):
    """The archive does not show what it should; the text says why."""


class Verified(NamedTuple):
    """What an archive shows, and why not to rely on it although every signature holds."""

    facts: list[str]
    doubts: list[str]


class Opened(NamedTuple):
    """A message whose signature holds."""

    content: dict[str, Any]
    digest: bytes
    role: str
    author: str
    certificate: x509.Certificate


def verify(archive: bytes, fingerprint: str, revocations: bytes | None = None) -> Verified:
    """Return what an archive (a ZIP file) shows.

    Parameters
    ----------
    fingerprint : str
        SHA-256 of the root certificate in hexadecimal; spaces and colons do not matter.
    revocations : bytes, optional
        A revocation list (DER or PEM) that is newer than the one in the archive.

    Raises
    ------
    NotVerifiedError
        If a signature, a digest or a certificate does not hold, or two messages do not belong together.
    """
    try:
        return _verified(archive, fingerprint, revocations)
    except NotVerifiedError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever strange bytes raise, they are not verified
        raise NotVerifiedError(f"malformed: {type(error).__name__}: {str(error)[:200]}") from None


def _verified(archive: bytes, fingerprint: str, revocations: bytes | None) -> Verified:
    files = _entries(archive)  # (1)
    root = _Root(files["root.pem"], fingerprint)  # (2)
    for crl in (files.get("revocations.crl"), revocations):
        root.revoke(crl or b"")
    signed = root.open("evidence-index", files[INDEX])  # (3)
    index, party = signed.content, signed.content["party"]
    _require(signed.role != "analyst" and signed.author == party, f"{INDEX} was not signed by {party}")
    _require(index["consortium_id"] == root.consortium, f"{INDEX} is of another consortium")
    _check_files(files, index)  # (4)
    if index["made_at"] > signed.certificate.not_valid_after_utc.timestamp():
        root.doubts.append(f"the certificate of {party} had ended when this archive was made")
    if "ledger.refused.odc" in files:
        root.doubts.append(f"{party} received a ledger that failed its check: it is not looked at here")
    if "downlink.refused.odc" in files:
        root.doubts.append(f"{party} received a downlink that contradicts the ledger: not looked at here")
    found = {  # (5)
        name: root.open("forgetting" if name == "forgotten" else name, files[f"{name}.odc"])
        for name in SIGNERS
        if f"{name}.odc" in files
    }
    _check_together(found, index)  # (6)
    if "acceptance" in found:
        text = hashlib.sha256(b"odc/v1/plain-words\x00" + files["plain-words.txt"]).digest()
        shown = found["acceptance"].content["shown_digest"]
        _require(text == shown, "plain-words.txt is not the text that was shown")
    if "desk.json" in files:
        of = found["uplink"].digest.hex() if "uplink" in found else None
        _require(json.loads(files["desk.json"])["uplink_digest"] == of, "desk.json is of another uplink")
    facts = [f"{party}, collaboration {index['collaboration_id']}, archive of {_time(index['made_at'])}"]
    facts += [f"{name}.odc: signed by {each.author} ({each.role})" for name, each in found.items()]
    facts += _figures(found)
    if "ledger.odc" in files:
        facts.append(_check_ledger(root, files["ledger.odc"], found, index))  # (7)
    facts.append(f"absent: {', '.join(index['absent']) or 'nothing'}")
    return Verified(facts, list(dict.fromkeys([*root.doubts, *root.revoked_uses()])))


class _Root:
    """The consortium's root, whose word about others counts."""

    def __init__(self, pem: bytes, fingerprint: str) -> None:
        self.certificate = x509.load_pem_x509_certificate(pem)
        wanted = "".join(fingerprint.lower().replace(":", " ").split())
        found = self.certificate.fingerprint(hashes.SHA256()).hex()
        _require(found == wanted, f"root.pem has the fingerprint {found}")
        (number,) = self.certificate.subject.get_attributes_for_oid(x509.NameOID.SERIAL_NUMBER)
        self.consortium = str(number.value)
        self.revoked: dict[int, datetime] = {}
        self.doubts: list[str] = []
        self.uses: list[tuple[bytes, datetime, str]] = []
        """Of revoked certificates: digest of what was signed, when it was revoked, and the doubt about it."""
        self.entered: dict[bytes, int] = {}
        """When each message was entered into a ledger that an analyst who is not revoked has signed."""

    def revoke(self, data: bytes) -> None:
        if data:
            pem = data.startswith(b"-----BEGIN")
            crl = x509.load_pem_x509_crl(data) if pem else x509.load_der_x509_crl(data)
            is_signed = crl.is_signature_valid(self.certificate.public_key())  # type: ignore[arg-type]  # or it raises
            _require(
                is_signed and crl.issuer == self.certificate.subject, "a revocation list is not the root's"
            )
            self.revoked |= {entry.serial_number: entry.revocation_date_utc for entry in crl}

    def open(self, kind: str, data: bytes) -> Opened:
        """Return a message whose author the root has certified: docs/protocol.md, "Signed"."""
        signed, label = _unpacked(data), f"odc/v1/{kind}"
        _require(signed["kind"] == label, f"{label}: signed as another kind")
        _require(
            "algorithm" not in signed, f"{label}: signed by an algorithm that this program does not know"
        )
        certificate = x509.load_der_x509_certificate(signed["certificate"])
        in_one_form = signed["certificate"].endswith(b"\x00" + certificate.signature)
        _require(in_one_form, f"{label}: the certificate is not in its one form")
        consortium, role, author = self._certified_name(certificate)
        _require(consortium == self.consortium, f"{label}: signed in another consortium")
        key = certificate.public_key()
        if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
            raise NotVerifiedError(f"{label}: not a P-256 key")
        of = label.encode() + b"\x00" + signed["payload"]
        key.verify(signed["signature"], of, ec.ECDSA(hashes.SHA256()))
        digest = hashlib.sha256(signed["payload"]).digest()
        if when := self.revoked.get(certificate.serial_number):
            doubt = (
                f"{label}: the certificate of {author} was revoked {when:%Y-%m-%d}; another may have its key"
            )
            self.uses.append((digest, when, doubt))
        content = _unpacked(signed["payload"])
        return Opened(content, digest, role, author, certificate)

    def revoked_uses(self) -> Iterator[str]:
        """Yield the doubts about what a revoked certificate may have signed after a ledger could show it."""
        for digest, when, doubt in self.uses:
            if not self.entered.get(digest, sys.maxsize) < when.timestamp():
                yield doubt

    def _certified_name(self, certificate: x509.Certificate) -> tuple[str, str, str]:
        # at the end of its validity: what was signed before stays signed
        at = min(certificate.not_valid_after_utc, self.certificate.not_valid_after_utc)
        policy = PolicyBuilder().store(Store([self.certificate])).time(at).max_chain_depth(0)
        names = policy.build_client_verifier().verify(certificate, []).subjects or []
        for usage in certificate.extensions:
            may_sign = not isinstance(usage.value, x509.KeyUsage) or usage.value.digital_signature
            _require(may_sign, "a certificate's keyUsage does not allow its key to sign")
        (urn,) = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
        scheme, namespace, consortium, role, author = urn.split(":")
        _require((scheme, namespace) == ("urn", "odc"), "a certificate names no member of a consortium")
        return consortium, role, author


def _check_files(files: dict[str, bytes], index: dict[str, Any]) -> None:
    listed = {file["name"]: (file["size_bytes"], file["digest"]) for file in index["files"]}
    _require(set(listed) | {INDEX} == set(files), "the files are not those of the index")
    for name, size_and_digest in listed.items():
        there = (len(files[name]), hashlib.sha256(files[name]).digest())
        _require(there == size_and_digest, f"{name} is not the file that was signed")


def _check_together(found: dict[str, Opened], index: dict[str, Any]) -> None:
    """Check that each message was signed by whom it should be, and is of this round and of one uplink."""
    _require(index["party"] in found["terms"].content["parties"], "terms.odc does not name the party")
    expected = {
        "consortium_id": index["consortium_id"],
        "collaboration_id": index["collaboration_id"],
        "party": index["party"],
        "terms_digest": found["terms"].digest,
        "uplink_digest": found["uplink"].digest if "uplink" in found else None,
    }
    _require(index["terms_digest"] == expected["terms_digest"], "terms.odc is not that of the index")
    for name, each in found.items():
        by_analyst = each.role == "analyst"
        if SIGNERS[name] == "analyst":
            _require(by_analyst, f"{name}.odc was not signed by the analyst")
            _check_key(each, found["terms"], f"{name}.odc")
        else:
            ours = not by_analyst and each.author == index["party"]
            _require(ours, f"{name}.odc was not signed by {index['party']}")
        for field in expected.keys() & each.content.keys():
            value = each.content[field]
            before_sending = name == "forgotten" and field == "uplink_digest" and value is None
            _require(before_sending or value == expected[field], f"{name}.odc has another {field}")


def _check_key(signed: Opened, terms: Opened, name: str) -> None:
    """Check that the analyst signed with the one key that the terms name, if they name one."""
    key = signed.certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    wanted = terms.content.get("analyst_key")
    _require(wanted in (None, hashlib.sha256(key).hexdigest()), f"{name}: not by the key that the terms name")


def _figures(found: dict[str, Opened]) -> Iterator[str]:
    yield f"title of the terms: {found['terms'].content['title']}"
    if "uplink" in found:
        sent = found["uplink"].content["arrays"][0]
        stated = {name: value for name, value in found["uplink"].content["privacy"].items() if value}
        rows, *of = sent["shape"]
        what = f"{rows} rows of {of[0]} numbers" if of else f"masked sums, {rows} numbers"
        yield f"uplink: {what} ({sent['dtype']}); stated: {stated}"
    if "receipt" in found:
        yield f"received by the analyst {_time(found['receipt'].content['received_at'])}"
    for file in found["forgotten"].content["erased"] if "forgotten" in found else ():
        yield f"erased, as the party says: {file['name']} {_time(file['erased_at'])}"


def _check_ledger(root: _Root, data: bytes, found: dict[str, Opened], index: dict[str, Any]) -> str:
    collaboration = index["collaboration_id"]
    entries: list[dict[str, Any]] = []
    signed: list[Opened] = []
    heads = [hashlib.sha256(b"odc/v1/ledger\x00" + collaboration.encode()).digest()]
    for page in _pages(data):
        for entry in page["entries"]:
            follows = (entry["index"], entry["previous"]) == (len(entries), heads[-1])
            _require(follows, f"ledger.odc: entry {len(entries)} does not follow the one before")
            entries.append(entry)
            heads.append(hashlib.sha256(b"odc/v1/ledger-entry\x00" + _packed(entry)).digest())
        signed.append(root.open("ledger-head", page["head"]))
    for head in signed:
        of = (head.role, head.content["collaboration_id"], heads[head.content["length"]])
        holds = of == ("analyst", collaboration, head.content["digest"])
        _require(holds, "ledger.odc: a head is not the analyst's, or not of these entries")
        _check_key(head, found["terms"], "ledger.odc: a head")
    _require(signed[-1].content["length"] == len(entries), "ledger.odc: its last head is of fewer entries")
    is_proof = signed[-1].certificate.serial_number not in root.revoked
    if is_proof:
        root.entered |= {entry["subject"]: entry["at"] for entry in reversed(entries) if entry["subject"]}
        root.entered |= {head.digest: head.content["at"] for head in signed}
    published = [entry["subject"] for entry in entries if entry["event"] == "publish terms"]
    _require(published == [found["terms"].digest], "ledger.odc is of other terms")
    for event, name in OURS.items():
        steps = {
            entry["subject"]
            for entry in entries
            if (entry["event"], entry["party"]) == (event, index["party"])
        }
        known = steps <= {found[name].digest} if name in found else name == "downlink" or not steps
        _require(known, f"ledger.odc: '{event}' is not about {name}.odc")
    said = f"ledger.odc: {len(entries)} entries until '{entries[-1]['state']}', head {heads[-1].hex()}"
    if "receipt" in found:
        receipt = found["receipt"].content
        at = receipt["ledger_index"]
        if at >= len(entries):
            return f"{said}; it was fetched before the receipt"
        named = (heads[at + 1], entries[at]["event"], entries[at]["party"], entries[at]["subject"])
        uplink = (receipt["ledger_digest"], "accept uplink", index["party"], receipt["uplink_digest"])
        _require(named == uplink, "ledger.odc is not the one that receipt.odc names")
        if is_proof:
            root.entered[found["receipt"].digest] = entries[at]["at"]
    return said


def _entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = archive.infolist()
        _require(len({each.filename for each in found}) == len(found), "two files have one name")
        _require(not any(each.compress_type for each in found), "a file is compressed")
        return {each.filename: archive.read(each) for each in found}


def _pages(data: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    while at < len(data):
        end = at + 4 + struct.unpack_from("<I", data, at)[0]
        yield _unpacked(data[at + 4 : end])
        at = end


def _unpacked(data: bytes) -> dict[str, Any]:
    value = msgpack.unpackb(data, raw=False, strict_map_key=True)
    if not isinstance(value, dict) or _packed(value) != data:
        raise NotVerifiedError("a message is not in its canonical form")
    return value


def _packed(value: Any) -> bytes:
    """Return the canonical bytes of a message: docs/protocol.md, "Canonical form"."""
    packed: bytes = msgpack.packb(_sorted(value), use_bin_type=True)
    return packed


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotVerifiedError(otherwise)


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _tell(lines: list[str]) -> None:
    for line in lines:  # texts of others must not move the cursor of a terminal
        print("".join(character if character.isprintable() else "?" for character in line))


def main() -> int:
    """Verify the archive that is named on the command line."""
    parser = argparse.ArgumentParser(description="verify an archive that `odc evidence` made")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--root", required=True, help="fingerprint of the consortium's root certificate")
    parser.add_argument("--revocations", type=Path, help="a newer revocation list of the consortium")
    given = parser.parse_args()
    newest = given.revocations.read_bytes() if given.revocations else None
    try:
        found = verify(given.archive.read_bytes(), given.root, newest)
    except NotVerifiedError as error:
        _tell([f"NOT VERIFIED: {error}"])
        return 1
    _tell([*found.facts, *(f"DOUBT: {doubt}" for doubt in found.doubts)])
    _tell(
        ["NOT TO BE RELIED ON, see above" if found.doubts else "VERIFIED: every signature and digest holds"]
    )
    return 1 if found.doubts else 0


if __name__ == "__main__":
    sys.exit(main())
