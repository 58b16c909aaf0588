"""The directory of one round: what each file in it is, and the signed messages, read and decoded once.

A file that is not named here is unknown, and `odc forget --check` lists it as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from protocol.codec import M, Message
from protocol.envelope import decode_stored
from protocol.messages import (
    Acceptance,
    DownlinkManifest,
    ForgettingStatement,
    Receipt,
    SealedAnchor,
    UplinkManifest,
)
from protocol.terms import Terms
from runtime.files import read_bytes, sync_directory, write_whole, writing_whole
from user_client.custody.home import Home, exclusive
from user_client.errors import NotPreparedError

TERMS_FILE: Final = "terms.odc"
ACCEPTANCE_FILE: Final = "acceptance.odc"
SEALING_KEY_FILE: Final = "sealing.key"
ANCHOR_FILE: Final = "anchor.odc"
SEALED_COPIES_FILE: Final = "anchors.odc"
MATRIX_FILE: Final = "anchor.matrix"
BASIS_FILE: Final = "basis.npy"
FEATURES_FILE: Final = "features.npz"
MASK_KEY_FILE: Final = "mask.key"
PREPARED_FILE: Final = "prepared.json"
BEGUN_FILE: Final = "uplink.begun"
MANIFEST_FILE: Final = "uplink.odc"
PAYLOAD_FILE: Final = "uplink.payload"
RECEIPT_FILE: Final = "receipt.odc"
DOWNLINK_FILE: Final = "downlink.odc"
UNTOLD_FILE: Final = "downlink.untold"
CHANGE_FILE: Final = "change_of_basis.bin"
MODEL_FILE: Final = "model.onnx"
MODEL_WITH_ROWS_FILE: Final = "model_with_rows.onnx"
TOTAL_FILE: Final = "total.bin"
LEDGER_FILE: Final = "ledger.odc"
REFUSED_FILE: Final = "ledger.refused.odc"
REFUSED_DOWNLINK_FILE: Final = "downlink.refused.odc"
OWN_MODEL_FILE: Final = "own_model.npz"
HOLD_OUT_FILE: Final = "hold_out.json"
LOCAL_MODEL_FILE: Final = "local_model.npz"
TRAINED_MODEL_FILE: Final = "trained_model.npz"
EVALUATION_FILE: Final = "evaluation.json"
ERRORS_FILE: Final = "errors.bin"
RELEASE_FILE: Final = "release.bin"
OLD_RELEASE_FILE: Final = "release.json"
STATEMENT_FILE: Final = "forgotten.odc"
FORGETTING_FILE: Final = "forgetting.json"

KEPT_FOLDER: Final = "kept"
"""Uplinks that had begun to leave when another was prepared, each in a folder of its own (`kept_uplinks`)."""

BASIS_FILES: Final[Mapping[str, str]] = {
    BASIS_FILE: "the secret basis F_i, and with it the map phi_i of the rows if there is one",
    PAYLOAD_FILE: "what was sent: X_i F_i and A F_i, rows in the order of P_i; or masked sums",
}
"""Files that hold F_i, phi_i or P_i, or that give F_i to whoever has the anchor."""

ANCHOR_FILES: Final[Mapping[str, str]] = {
    ANCHOR_FILE: "the anchor, sealed for us",
    SEALED_COPIES_FILE: "the anchor, sealed for every member; only the lead has this file",
    MATRIX_FILE: "the matrix of a public anchor, sealed",
    SEALING_KEY_FILE: "the key that opens the anchor",
    FEATURES_FILE: "the features that are summed, in coordinates that the analyst does not know",
    MASK_KEY_FILE: "the key of our masks: with it the analyst could take the mask off our sums",
}
"""Files that lead to A. With A and what the analyst has, F_i = A^+ A_i (arXiv:2403.02780v5, section II-B)."""

# Neither the rows that were kept back nor a model of our own rows lead to F_i or P_i: both are made of the
# table alone, whoever has the table learns nothing from them, and `odc evaluate` needs them after forgetting.
OTHER_FILES: Final[Mapping[str, str]] = {
    ".lock": "keeps two commands from working here at once",
    TERMS_FILE: "the terms, signed by the analyst",
    ACCEPTANCE_FILE: "our signature under the terms",
    MANIFEST_FILE: "sizes and digests of what was sent, signed by us",
    PREPARED_FILE: "what `odc prepare` showed: counts, quantiles and singular values",
    BEGUN_FILE: "says that the uplink has begun to leave: its basis is kept, its mask covers no other",
    RECEIPT_FILE: "the analyst's receipt",
    LEDGER_FILE: "the longest ledger that passed verification",
    REFUSED_FILE: "the last ledger that failed verification",
    REFUSED_DOWNLINK_FILE: "the last downlink that contradicted the ledger, without its arrays",
    DOWNLINK_FILE: "sizes and digests of what came back, signed by the analyst",
    UNTOLD_FILE: "names the downlink to the analyst, until it knows that all of it is here",
    CHANGE_FILE: "the change of basis G_i",
    MODEL_FILE: "the model h",
    MODEL_WITH_ROWS_FILE: "the model h of terms whose model may contain rows of other institutions",
    TOTAL_FILE: "the total of the sums of all institutions, in turned coordinates",
    OWN_MODEL_FILE: "our own model t_i",
    HOLD_OUT_FILE: "which rows of our table were kept back",
    LOCAL_MODEL_FILE: "the model of our own rows alone, to compare with",
    TRAINED_MODEL_FILE: "the model that `odc train` has made of the shared rows",
    EVALUATION_FILE: "what `odc evaluate` found last",
    ERRORS_FILE: "how far its predictions of numbers were off, in ascending order, for intervals",
    RELEASE_FILE: "keyed fingerprints of the rows that were sent, to know them again in a later round",
    OLD_RELEASE_FILE: "the same, of an earlier version",
    STATEMENT_FILE: "our signed statement of what was erased",
    FORGETTING_FILE: "what is being erased, until the statement of it is signed",
}

ROLES: Final[Mapping[str, str]] = {**BASIS_FILES, **ANCHOR_FILES, **OTHER_FILES}

_MESSAGES: Final[Mapping[type[Message], tuple[str, str]]] = {
    Terms: (TERMS_FILE, "odc terms show"),
    Acceptance: (ACCEPTANCE_FILE, "odc terms accept"),
    SealedAnchor: (ANCHOR_FILE, "odc prepare TABLE"),
    UplinkManifest: (MANIFEST_FILE, "odc prepare TABLE"),
    Receipt: (RECEIPT_FILE, "odc contribute"),
    DownlinkManifest: (DOWNLINK_FILE, "odc receive"),
    ForgettingStatement: (STATEMENT_FILE, "odc forget"),
}
"""The file of each signed message, and the command that writes it."""
_AWAITED: Final = (
    "`odc receive --wait 3600` fetches the model once the analyst has released it; `odc status` says whom the"
    " round waits for"
)

HALF_WRITTEN: Final = "half written: "
KEPT_ROLE: Final = "of an uplink that was begun before: "
"""How the role of such a file begins."""
_KEPT: Final = re.compile(f"^{KEPT_FOLDER}/[0-9a-f]{{64}}/")

Version = tuple[int, int, int]
"""Tells one version of a file from the next: inode, time of change in nanoseconds, size in bytes."""


@dataclass(frozen=True)
class RoundFile:
    """One file in the directory of a round; ``role`` is empty for an unknown file."""

    name: str
    size_bytes: int
    role: str

    @property
    def content(self) -> str:
        """What is in it, also if it is half written or of an uplink that was begun before."""
        return self.role.removeprefix(KEPT_ROLE).removeprefix(HALF_WRITTEN)


class RoundDirectory:
    """Reads and writes the files of one round.

    A signed message is decoded once and kept for as long as its file stays the same, so that every step
    can ask for the terms or the manifest without a thought about who has read them before. Signatures are
    not checked again: each message was verified before it was stored, and the certificate of its author
    may have ended since.
    """

    def __init__(self, home: Home, collaboration_id: str) -> None:
        self.home = home
        self.collaboration_id = collaboration_id
        self._decoded: dict[str, tuple[Version, Message, bytes]] = {}
        self._checked: dict[str, Version | None] = {}

    def __repr__(self) -> str:
        return f"<RoundDirectory of {self.collaboration_id}>"

    @property
    def path(self) -> Path:
        """The directory itself; raises `InputError` if the id is not the id of a collaboration."""
        return self.home.collaboration(self.collaboration_id)

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other commands out of this round; raises `BusyError` if one is at work."""
        return exclusive(self.path)

    def holds(self, file: str | type[Message]) -> bool:
        """Return whether a file, or the file of a signed message, is here."""
        return (self.path / _name(file)).exists()

    def load(self, kind: type[M], *, step: str | None = None) -> M:
        """Return the signed message of a kind.

        Raises `NotPreparedError` with the command to run first, which is ``step`` unless it is the
        command that writes the file.
        """
        return self.load_signed(kind, step=step)[0]

    def load_signed(self, kind: type[M], *, step: str | None = None) -> tuple[M, bytes]:
        """Return the signed message of a kind and its bytes; raises `NotPreparedError`."""
        name, writer = _MESSAGES[kind]
        path = self.path / name
        version = _version(path)
        if version is None:
            step = step or writer
            error = NotPreparedError(f"this step needs an earlier one: {step}")
            error.hint = _AWAITED if kind is DownlinkManifest else f"run `{step}` first"
            raise error
        if name not in self._decoded or self._decoded[name][0] != version:
            data = read_bytes(path)
            self._decoded[name] = version, decode_stored(kind, data), data
        _, message, data = self._decoded[name]
        return cast("M", message), data

    def find(self, kind: type[M]) -> M | None:
        """Return the signed message of a kind, or None if it is not here."""
        return self.load(kind) if self.holds(kind) else None

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises `UnreadableFileError`."""
        return read_bytes(self.path / name)

    def write(self, file: str | type[Message], *parts: bytes | memoryview) -> None:
        """Write a file whole and durably."""
        name = _name(file)
        self._decoded.pop(name, None)
        write_whole(self.path / name, *parts)

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Yield a file to write to, which takes its place whole and durably at the end."""
        with writing_whole(self.path / name) as file:
            yield file

    def read_secret(self, name: str) -> bytes:
        """Return the content of a secret file, unsealed if the state directory is protected."""
        return self.home.read_secret(self.path / name)

    def write_secret(self, name: str, *parts: bytes | memoryview) -> None:
        """Write a secret file whole, sealed if the state directory is protected."""
        self.home.write_secret(self.path / name, *parts)

    def write_secret_of(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write a secret file as `write_secret` does, and ask for one part of it at a time."""
        self.home.write_secret_of(self.path / name, parts)

    def write_model(self, onnx_file: bytes | memoryview, *, may_have_rows: bool) -> None:
        """Write the model that came; one that may contain rows of others is a secret."""
        if may_have_rows:
            self.write_secret(MODEL_WITH_ROWS_FILE, onnx_file)
            self.remove(MODEL_FILE)  # an earlier version has left it unsealed
        else:
            self.write(MODEL_FILE, onnx_file)

    def read_model(self) -> bytes:
        """Return the model that came; that of an earlier version is no secret, whatever it contains."""
        if self.holds(MODEL_WITH_ROWS_FILE):
            return self.read_secret(MODEL_WITH_ROWS_FILE)
        return self.read(MODEL_FILE)

    def remove(self, *names: str) -> None:
        """Remove files that may not be here, durably."""
        here = [path for path in (self.path / name for name in names) if path.exists()]
        for path in here:
            path.unlink(missing_ok=True)
        if here:
            sync_directory(self.path)

    def mark_checked(self, *names: str) -> None:
        """Remember that the content of these files was checked just now, one against the other."""
        self._checked = {name: _version(self.path / name) for name in names}

    def was_checked(self, *names: str) -> bool:
        """Return whether these files were checked before and none has changed since."""
        return self._checked == {name: _version(self.path / name) for name in names}

    def files(self) -> Iterator[RoundFile]:
        """Yield every file in and below the directory, by name."""
        for path in sorted(self.path.rglob("*")):
            if not path.is_dir():
                name = path.relative_to(self.path).as_posix()
                yield RoundFile(name, path.lstat().st_size, _role(name))

    def copies(self, name: str) -> Iterator[Path]:
        """Yield a file, if it is here, those of kept uplinks, and what killed commands left of it."""
        for folder in (self.path, *sorted(self.path.glob(f"{KEPT_FOLDER}/*/"))):
            for path in (folder / name, *folder.glob(f".{name}.*.part")):
                if path.exists():
                    yield path


def _name(file: str | type[Message]) -> str:
    return file if isinstance(file, str) else _MESSAGES[file][0]


def _version(path: Path) -> Version | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _role(name: str) -> str:
    own = _KEPT.sub("", name)
    whole = own[1:].rsplit(".", 2)[0] if own.startswith(".") and own.endswith(".part") else own
    role = ROLES.get(whole, "")
    if not role:
        return ""
    return (KEPT_ROLE if own != name else "") + (HALF_WRITTEN if whole != own else "") + role
