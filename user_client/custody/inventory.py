"""What each file of a round is, and which of them lead to the secret basis.

Whatever lies in a round's directory and is not named here is unknown, and `odc forget --check` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STATEMENT_FILE: Final = "forgotten.odc"
OWN_MODEL_FILE: Final = "own_model.npz"

BASIS_FILES: Final[Mapping[str, str]] = {
    "basis.npy": "the secret basis F_i",
    "uplink.payload": "what was sent: X_i F_i and A F_i, rows in the order of P_i",
}
"""They hold F_i or P_i, or give F_i to whoever has the anchor."""

ANCHOR_FILES: Final[Mapping[str, str]] = {
    "anchor.odc": "the anchor, sealed for us",
    "anchors.odc": "the anchor, sealed for every member; at the lead alone",
    "anchor.matrix": "the matrix of a public anchor, sealed",
    "sealing.key": "the key that opens the anchor",
}
"""With A and what the analyst holds, F_i = A^+ A_i (arXiv:2403.02780v5, section II-B)."""

OTHER_FILES: Final[Mapping[str, str]] = {
    ".lock": "keeps two commands apart",
    "terms.odc": "the terms, signed by the analyst",
    "acceptance.odc": "our signature under the terms",
    "uplink.odc": "sizes and digests of what was sent, signed by us",
    "prepared.json": "what `odc prepare` showed: counts, quantiles and singular values",
    "receipt.odc": "the analyst's receipt",
    "ledger.odc": "the longest ledger that held",
    "ledger.refused.odc": "the last ledger that did not hold",
    "downlink.odc": "sizes and digests of what came back, signed by the analyst",
    "change_of_basis.bin": "the change of basis G_i",
    "model.onnx": "the model h",
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
