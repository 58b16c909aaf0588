"""An institution's own non-linear map of its rows, phi_i: made or read, checked, applied and stored.

Whatever its kind, it is an ONNX file from encoded rows to the numbers that are projected, evaluated in a
process without other secrets of ours, files or connections (docs/adr/0083). Two kinds are made here; the
third is a file of the institution.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from protocol.errors import InputError
from protocol.own_maps import OWN_MAP_KINDS
from protocol.row_bounds import longest_anchor_row, longest_row
from protocol.terms import Terms
from runtime.files import read_bytes
from user_client.custody.scratch import Scratch
from user_client.errors import ModelRefusedError
from user_client.onnx_model.process import Model
from user_client.onnx_model.profiles import OF_AN_INSTITUTION
from user_client.onnx_model.writing import cosine_map, kernel_map
from user_client.rows import Rows, sample_of
from user_client.secret.expansion import ByteSource, Matrix64
from user_client.secret.nonlinear import inverse_root, median_distance, random_frequencies

RANDOM_FEATURES: Final = 256
"""D of the cosines. Measured (docs/adr/0083): fewer lose accuracy, more gain little."""
LANDMARKS: Final = 256
"""Anchor rows at which a kernel is evaluated, at most."""
MEASURED_ROWS: Final = 500
"""Between which distances are measured."""
MAX_MAP_BYTES: Final = 64 * 2**20
MAX_MAP_WIDTH: Final = 2048
"""Numbers that a map may make of a row: a matrix of so many squared is factorised."""
SUFFIX: Final = ".onnx"
_SHORTER: Final = 1 - 1e-6
"""By how much rows stay within their bound, for rounding."""


class OwnMap:
    """phi_i, from encoded rows (n, m) to (n, D). Secret, with all that is in its file.

    Attributes
    ----------
    file : bytes
        ONNX.
    features, width : int
        m and D.
    """

    def __init__(self, file: bytes, features: int) -> None:
        """Open a map; raises `InputError` if it is none of such rows, and says what it lacks."""
        self.file, self.features = file, features
        self.width = self(np.zeros((1, features))).shape[1]
        if not 1 <= self.width <= MAX_MAP_WIDTH:
            raise InputError(f"a map makes from 1 to {MAX_MAP_WIDTH} numbers of a row, this one {self.width}")

    def __repr__(self) -> str:
        return f"<OwnMap from {self.features} to {self.width} numbers>"

    def __getstate__(self) -> dict[str, object]:
        return {"file": self.file, "features": self.features, "width": self.width}

    def __call__(self, rows: Matrix64) -> Matrix64:
        """Return phi_i of encoded rows; raises `InputError` if it is not finite for one of them."""
        try:
            found = self._model.run(rows.astype(np.float32), "").astype(np.float64)
        except ModelRefusedError as error:
            raise InputError(
                f"the own map does not fit rows of {self.features} encoded features: it {error.reason}"
            ) from None
        if not np.isfinite(found).all():
            raise InputError("the own map makes numbers of a row that are not finite: take another map")
        return found

    @cached_property
    def _model(self) -> Model:
        return Model(self.file, profile=OF_AN_INSTITUTION)

    def of_rows(self, rows: Rows, scratch: Scratch) -> Rows:
        """Return phi_i of all rows, in the same blocks; one block at a time is in memory."""
        return scratch.keep((self(block) for block in rows.blocks()), self.width)


@dataclass(frozen=True, repr=False)
class Mapped:
    """A map in use: phi_i, and phi_i of the anchor, (a, D)."""

    own_map: OwnMap
    terms: Terms
    anchor: Matrix64

    def scale_for(self, rows: Rows) -> float:
        """Return by what phi_i is multiplied, so that no row is longer than rows under these terms can be.

        Least squares undo any scale. ``rows`` are phi_i of the rows, (n, D).
        """
        longest = max(float(np.square(block).sum(axis=1).max()) for block in rows.blocks()) ** 0.5
        of_anchor = float(np.square(self.anchor).sum(axis=1).max()) ** 0.5
        if not min(longest, of_anchor) > 0:
            raise InputError("the own map makes nothing but zeros of the rows or of the anchor: take another")
        bounds = longest_row(self.terms.table_schema) / longest, longest_anchor_row(self.terms) / of_anchor
        return float(_SHORTER * min(bounds))

    def anchor_rep(self, secret_basis: Matrix64) -> Matrix64:
        """Return A_i, (a, l); raises `InputError` if its columns depend on each other as the analyst sees it.

        The analyst would suspect us then, and leave our rows out.
        """
        found = np.asarray(self.anchor @ secret_basis)
        centred = found - found.mean(axis=0)
        energies = np.linalg.eigvalsh(centred.T @ centred)
        rounding = len(found) * float(np.finfo(np.float32).eps)
        rank = int(np.count_nonzero(energies > rounding * max(energies[-1], 0)))
        if rank < found.shape[1]:
            raise InputError(
                f"the own map tells only {rank} numbers of the anchor's rows apart, and {found.shape[1]} are"
                " to be sent: take another map, or a smaller --latent-dim where the terms leave that open"
            )
        return found


def own_map_of(
    chosen: str | None,
    terms: Terms,
    rows: Rows,
    anchor: Matrix64,
    source: ByteSource,
    *,
    numbers: int,
) -> Mapped | None:
    """Return the map that an institution has chosen, None for a linear f_i.

    Parameters
    ----------
    chosen : str, optional
        A kind that is made here, or the path of an ONNX file.
    rows : (n, m) Rows
        X_i, with the features that the party has.
    anchor : (a, m) ndarray of float64
        With these features.
    source : callable
        Returns secret bytes, for random features.
    numbers : int
        l_i, how many numbers of a row are to be sent.

    Raises
    ------
    InputError
        If the terms do not allow this kind, there are no rows, or the file is no map of such rows.
    """
    if chosen is None:
        return None
    require_allowed(chosen, terms)
    if not len(rows):
        raise InputError(
            "an own map needs rows to fit a basis to, and there are none: leave out the own map, a linear one"
            " works"
        )
    kind = kind_of(chosen)
    file = _read(Path(chosen)) if kind == "onnx" else _made(kind, rows, anchor, source)
    found = OwnMap(file, rows.shape[1])
    if found.width < numbers:
        raise InputError(
            f"the own map makes {found.width} numbers of a row, and {numbers} are to be sent: take a wider"
            " map, or a smaller --latent-dim where the terms leave that open"
        )
    return Mapped(found, terms, found(anchor))


def kind_of(chosen: str) -> str:
    """Return the kind of a map: that of its name, or "onnx" for a file."""
    return "onnx" if chosen.endswith(SUFFIX) else chosen


def require_own_map(chosen: str) -> None:
    """Raise `InputError` for what names neither a kind that is made here nor an ONNX file."""
    if kind_of(chosen) not in OWN_MAP_KINDS or chosen == "onnx":
        made = " or ".join(kind for kind in OWN_MAP_KINDS if kind != "onnx")
        raise InputError(f"an own map is {made}, or the path of a file that ends in {SUFFIX}; got {chosen}")


def require_allowed(chosen: str, terms: Terms) -> None:
    """Raise `InputError` if terms do not allow a map of this kind."""
    if kind_of(chosen) in terms.own_maps:
        return
    error = InputError(
        f"the terms allow {', '.join(terms.own_maps)} beside linear maps, not {kind_of(chosen)}"
        if terms.own_maps
        else "the terms ask for an orthonormal linear basis from every institution, not for a map of its own"
    )
    error.hint = "leave out --own-map, or ask the lead for terms with own_maps"
    raise error


def digest_of_map(chosen: str | None) -> str:
    """Return the digest of the file of a map, empty if it is none of a file."""
    if chosen is None or kind_of(chosen) != "onnx":
        return ""
    return hashlib.sha256(_read(Path(chosen))).hexdigest()


def packed(secret_basis: Matrix64, own_map: OwnMap | None) -> bytes:
    """Return a basis and its map as they are stored: in one file, so that neither outlives the other."""
    buffer = io.BytesIO()
    if own_map is None:
        np.save(buffer, secret_basis, allow_pickle=False)
    else:
        np.savez(buffer, secret_basis=secret_basis, own_map=np.frombuffer(own_map.file, np.uint8))
    return buffer.getvalue()


def unpacked(data: bytes) -> tuple[Matrix64, bytes | None]:
    """Return what `packed` was given: the basis, (m, l) or (D, l), and the file of the map."""
    found = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(found, np.ndarray):
        return found, None
    with found:
        return found["secret_basis"], found["own_map"].tobytes()


def is_packed(path: Path) -> bool:
    """Return whether a file is a basis with its map, as `packed` writes it."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as found:
        return found.namelist() == ["secret_basis.npy", "own_map.npy"]


def _made(kind: str, rows: Rows, anchor: Matrix64, source: ByteSource) -> bytes:
    """Return the file of a map that is made here.

    The width of its kernel is the median distance: of random features between own rows; of kernel-pca between
    rows of the anchor, which is the same for every institution that has the same columns.
    """
    rng = np.random.default_rng(0)  # which rows are measured is no secret
    if kind == "random-features":
        some = rows.take(sample_of(len(rows), MEASURED_ROWS, rng))
        width = median_distance(some) or median_distance(anchor[:MEASURED_ROWS]) or 1.0
        return cosine_map(*random_frequencies(source, rows.shape[1], RANDOM_FEATURES, width))
    landmarks = np.unique(anchor[:LANDMARKS], axis=0)
    width = median_distance(landmarks) or 1.0
    return kernel_map(landmarks, inverse_root(landmarks, width), width)


def _read(path: Path) -> bytes:
    data = read_bytes(path)
    if len(data) > MAX_MAP_BYTES:
        raise InputError(f"the file of a map has at most {MAX_MAP_BYTES:,} bytes, this one {len(data):,}")
    return data
