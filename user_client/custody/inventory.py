"""What each file of a round is, and which of them lead to the secret basis.

Whatever lies in a round's directory and is not named here is unknown, and `odc forget --check` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TERMS_FILE: Final = "terms.odc"
ACCEPTANCE_FILE: Final = "acceptance.odc"
SEALING_KEY_FILE: Final = "sealing.key"
ANCHOR_FILE: Final = "anchor.odc"
DRAWN_FILE: Final = "anchors.odc"
MATRIX_FILE: Final = "anchor.matrix"
BASIS_FILE: Final = "basis.npy"
PREPARED_FILE: Final = "prepared.json"
MANIFEST_FILE: Final = "uplink.odc"
PAYLOAD_FILE: Final = "uplink.payload"
RECEIPT_FILE: Final = "receipt.odc"
DOWNLINK_FILE: Final = "downlink.odc"
CHANGE_FILE: Final = "change_of_basis.bin"
MODEL_FILE: Final = "model.onnx"
LEDGER_FILE: Final = "ledger.odc"
REFUSED_FILE: Final = "ledger.refused.odc"
OWN_MODEL_FILE: Final = "own_model.npz"
STATEMENT_FILE: Final = "forgotten.odc"

BASIS_FILES: Final[Mapping[str, str]] = {
    BASIS_FILE: "the secret basis F_i",
    PAYLOAD_FILE: "what was sent: X_i F_i and A F_i, rows in the order of P_i",
}
"""They hold F_i or P_i, or give F_i to whoever has the anchor."""

ANCHOR_FILES: Final[Mapping[str, str]] = {
    ANCHOR_FILE: "the anchor, sealed for us",
    DRAWN_FILE: "the anchor, sealed for every member; at the lead alone",
    MATRIX_FILE: "the matrix of a public anchor, sealed",
    SEALING_KEY_FILE: "the key that opens the anchor",
}
"""With A and what the analyst holds, F_i = A^+ A_i (arXiv:2403.02780v5, section II-B)."""

OTHER_FILES: Final[Mapping[str, str]] = {
    ".lock": "keeps two commands apart",
    TERMS_FILE: "the terms, signed by the analyst",
    ACCEPTANCE_FILE: "our signature under the terms",
    MANIFEST_FILE: "sizes and digests of what was sent, signed by us",
    PREPARED_FILE: "what `odc prepare` showed: counts, quantiles and singular values",
    RECEIPT_FILE: "the analyst's receipt",
    LEDGER_FILE: "the longest ledger that held",
    REFUSED_FILE: "the last ledger that did not hold",
    DOWNLINK_FILE: "sizes and digests of what came back, signed by the analyst",
    CHANGE_FILE: "the change of basis G_i",
    MODEL_FILE: "the model h",
    OWN_MODEL_FILE: "our own model t_i",
    STATEMENT_FILE: "our signed statement of what was erased",
}

ROLES: Final[Mapping[str, str]] = {**BASIS_FILES, **ANCHOR_FILES, **OTHER_FILES}


@dataclass(frozen=True)
class RoundFile:
    """One file of a round's directory; ``role`` is empty if nobody knows what it is."""

    name: str
    size_bytes: int
    role: str


def files_of(directory: Path) -> Iterator[RoundFile]:
    """Yield every file below a round's directory, by name."""
    for path in sorted(directory.rglob("*")):
        if not path.is_dir():
            name = path.relative_to(directory).as_posix()
            yield RoundFile(name, path.lstat().st_size, _role(name))


def paths_of(directory: Path, name: str) -> Iterator[Path]:
    """Yield a file of a round, if it is there, and what a killed command left of it half written."""
    yield from (path for path in (directory / name, *directory.glob(f".{name}.*.part")) if path.exists())


def _role(name: str) -> str:
    whole = name[1:].rsplit(".", 2)[0] if name.startswith(".") and name.endswith(".part") else name
    role = ROLES.get(whole, "")
    return f"half written: {role}" if role and whole != name else role
