"""Everything that this institution can show an auditor of one collaboration, in one signed archive.

`user_client.evidence_verifier` verifies it without our packages. Only files that are named here are copied:
none of them is a secret, is a part of the rows that were sent, or leads to the secret basis.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import digest
from protocol.consent import plain_words
from protocol.errors import UnreadableFileError
from protocol.evidence import EvidenceFile, EvidenceIndex
from protocol.identity import fingerprint
from protocol.messages import UplinkManifest
from protocol.terms import Terms
from user_client import evidence_verifier
from user_client.custody.round_directory import (
    ACCEPTANCE_FILE,
    DOWNLINK_FILE,
    LEDGER_FILE,
    MANIFEST_FILE,
    RECEIPT_FILE,
    REFUSED_DOWNLINK_FILE,
    REFUSED_FILE,
    STATEMENT_FILE,
    TERMS_FILE,
    RoundDirectory,
)
from user_client.sdk.own_map import kind_of
from user_client.sdk.releases import stored_summary
from user_client.sdk.session import Session

INDEX_FILE: Final = evidence_verifier.INDEX
ROOT_FILE: Final = "root.pem"
REVOCATIONS_FILE: Final = "revocations.crl"
WORDS_FILE: Final = "plain-words.txt"
DESK_FILE: Final = "desk.json"
CONTENTS_FILE: Final = "contents.txt"

STEPS: Final[Mapping[str, tuple[str, str]]] = {
    TERMS_FILE: ("the terms, signed by the analyst", "odc terms show"),
    ACCEPTANCE_FILE: ("our signature under the terms and under the text that was shown", "odc terms accept"),
    MANIFEST_FILE: ("sizes and digests of what is sent, and what was done to the rows", "odc prepare TABLE"),
    DESK_FILE: ("what we measured before anything was sent, for the whole table", "odc prepare TABLE"),
    RECEIPT_FILE: ("the analyst's receipt", "odc contribute"),
    LEDGER_FILE: ("every step that the analyst has signed, as fetched last", "odc contribute"),
    DOWNLINK_FILE: ("sizes and digests of what came back, signed by the analyst", "odc receive"),
    STATEMENT_FILE: ("our statement of what was erased", "odc forget"),
}
"""What an archive has of each step, and the command without which it is absent."""
OTHERS: Final[Mapping[str, str]] = {
    WORDS_FILE: "the terms in plain words, as a person was shown them",
    ROOT_FILE: "the consortium's root certificate; all others are in what they signed",
    REVOCATIONS_FILE: "the newest list of revoked certificates that we know",
    REFUSED_FILE: "a ledger that failed our check",
    REFUSED_DOWNLINK_FILE: "a downlink that contradicted the ledger, without its arrays",
    CONTENTS_FILE: "this list",
}
COPIED: Final = (
    TERMS_FILE,
    ACCEPTANCE_FILE,
    MANIFEST_FILE,
    RECEIPT_FILE,
    LEDGER_FILE,
    REFUSED_FILE,
    REFUSED_DOWNLINK_FILE,
    DOWNLINK_FILE,
    STATEMENT_FILE,
)
"""Files of the round that go into an archive as they are."""

TOLD: Final = (
    "rows",
    "table_rows",
    "held_out_rows",
    "features",
    "latent_dim",
    "most_latent_dim",
    "payload_bytes",
    "formula_bytes",
    "model",
    "alone",
    "noise_sigma",
    "privacy",
    "options",
    "signal",
    "least_signal",
    "uplink",
    "information",
    "hidden_share",
    "collusion_error",
    "overlaps",
    "attacks",
)
"""Fields of ``prepared.json`` of which something goes into the desk report; `desk_report` says what."""
TOLD_OF_AN_ATTACK: Final = (
    "name",
    "attacker",
    "finds",
    "ran",
    "is_complete",
    "exact_rows",
    "right_values",
    "guessed_rows",
    "guessed_values",
    "relations",
)
"""Of each attack; of the columns that it found, their number."""
WITHHELD: Final[Mapping[str, str]] = {
    "singular_values": "they are of the rows, to the last digit",
    "threshold": "counts of the easiest rows, and a dimension that the easiest row decides",
    "source": "who has all rows of a table but one can guess that one by the digest of the file",
    "arrays": "they are in the manifest",
    "sums_noise": "how many rows were clipped is counted without noise, and the rest follows from the terms",
    "repeated_rows": "who has all rows of a table but one learns whether that one equals another",
    "would_pass": "about terms that do not exist",
    "members_get_total": "it is in the terms",
    "isolated": "figures of one column, which it names",
}
"""Fields of ``prepared.json`` that never leave, and why."""


@dataclass(frozen=True, repr=False)
class Evidence:
    """An archive, and what its verifier says of it.

    Attributes
    ----------
    archive : bytes
        A ZIP file.
    files, absent : mapping of str to str
        What is in it, with a description; and what is not, with the command that would bring it.
    root_fingerprint : str
        What an auditor compares with another source.
    """

    archive: bytes
    files: Mapping[str, str]
    absent: Mapping[str, str]
    facts: list[str]
    doubts: list[str]
    root_fingerprint: str

    def __repr__(self) -> str:
        return f"<Evidence of {len(self.files)} files>"


def make_evidence(session: Session, directory: RoundDirectory) -> Evidence:
    """Collect, sign and verify an archive; what has not happened yet is named in it."""
    directory.load(Terms)  # before the lock, which would make a directory for a round that we do not know
    with directory.exclusive():
        files = collect(session, directory)
        archive = sealed(session, directory, files)
    root = fingerprint(session.home.root().certificate)
    try:
        facts, doubts = evidence_verifier.verify(archive, root)
    except evidence_verifier.NotVerifiedError as reason:
        error = UnreadableFileError(directory.path, f"its files do not belong together: {reason}")
        error.hint = "restore the state directory whole from a backup"
        raise error from None
    described = {**OTHERS, **{name: what for name, (what, _) in STEPS.items()}}
    return Evidence(
        archive=archive,
        files={name: described[name] for name in sorted(files)},
        absent={name: command for name, (_, command) in STEPS.items() if name not in files},
        facts=facts,
        doubts=doubts,
        root_fingerprint=root,
    )


def collect(session: Session, directory: RoundDirectory) -> dict[str, bytes]:
    """Return the content of every file of an archive but its index."""
    terms = directory.load(Terms)
    root = session.home.root()
    files = {name: directory.read(name) for name in COPIED if directory.holds(name)}
    files[WORDS_FILE] = plain_words(terms).encode()
    files[ROOT_FILE] = root.certificate.public_bytes(Encoding.PEM)
    if root.revocations is not None:
        files[REVOCATIONS_FILE] = root.revocations.der
    manifest = directory.find(UplinkManifest)
    if manifest is not None and (prepared := stored_summary(directory)):
        report = desk_report(prepared, digest(manifest).hex())
        files[DESK_FILE] = json.dumps(report, indent=2, sort_keys=True).encode() + b"\n"
    party = session.membership.party
    files[CONTENTS_FILE] = _contents(terms, party, {*files, CONTENTS_FILE}).encode()
    return files


def sealed(session: Session, directory: RoundDirectory, files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files and their signed index; apart from the signature, the same each time."""
    membership = session.membership
    index = EvidenceIndex(
        consortium_id=membership.consortium_id,
        collaboration_id=directory.collaboration_id,
        terms_digest=digest(directory.load(Terms)),
        party=membership.party,
        made_at=session.clock(),
        files=tuple(
            EvidenceFile(name=name, size_bytes=len(data), digest=hashlib.sha256(data).digest())
            for name, data in sorted(files.items())
        ),
        absent=tuple(sorted(set(STEPS) - set(files))),
    )
    return packed({**files, INDEX_FILE: session.sign(index)})


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return a ZIP file, uncompressed, with fixed times and in the order of the names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name)  # of 1980-01-01
            info.create_system, info.external_attr = 3, 0o600 << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def desk_report(prepared: Mapping[str, Any], uplink_digest: str) -> dict[str, Any]:
    """Return what may be shown of what `odc prepare` measured: figures of the whole table, rounded.

    Minima and the outermost quantiles are left out because single rows decide them, and so are names of
    columns that were found and names of other rounds.
    """
    report = {name: prepared[name] for name in TOLD if prepared.get(name) is not None}
    for name in ("hidden_share", "collusion_error"):
        if name in report:
            report[name] = {"median": report[name]["median"]}
    if "overlaps" in report:
        report["overlaps"] = [
            {"collaboration_id": each["release"]["collaboration_id"], "rows": each["rows"]}
            for each in report["overlaps"]
        ]
    if "attacks" in report:
        report["attacks"] = [
            {
                **{name: each.get(name) for name in TOLD_OF_AN_ATTACK},
                **{name: len(each.get(name, ())) for name in ("columns", "named")},
            }
            for each in report["attacks"]
        ]
    rounded: dict[str, Any] = _rounded(report)
    options = prepared.get("options", {})
    exact = {name: options[name] for name in options if options[name] is not None}
    if "own_map" in exact:  # of a file, its path is nobody's business
        exact["own_map"] = kind_of(exact["own_map"])
    return {**rounded, "options": exact, "privacy": prepared.get("privacy"), "uplink_digest": uplink_digest}


def _rounded(value: Any) -> Any:
    """Round every float: the last digits of a mean over few rows tell about each of them."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 3) if isinstance(value, float) else value


def _contents(terms: Terms, party: str, names: set[str]) -> str:
    steps = [f"  {name:<16} {what}" for name, (what, _) in STEPS.items() if name in names]
    others = [f"  {name:<16} {what}" for name, what in OTHERS.items() if name in names]
    absent = [f"  {name:<16} {what}" for name, (what, _) in STEPS.items() if name not in names]
    lines = [
        f"Evidence of {party} about the collaboration {terms.collaboration_id}: {terms.title}",
        "",
        *steps,
        *others,
        f"  {INDEX_FILE:<16} digests of all these files, signed by {party}",
        "",
        *(["Absent, because it has not happened or is not stored here:", *absent, ""] if absent else []),
        "Each .odc file is a message with its author's certificate and signature. Get the verifier from the",
        "software (odc evidence --verifier) or write one (docs/protocol.md), not from whoever gave you this",
        "archive, and ask the lead institution for the fingerprint of the root.",
        f"What {party} says of itself (desk.json, forgotten.odc) nobody else can check.",
    ]
    return "".join(f"{line}\n" for line in lines)
