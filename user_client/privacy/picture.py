"""A picture that shows people what the projection does to image-shaped rows."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
Pixels = NDArray[np.uint8]
_TILE_PIXELS = 112
_GAP = 8
_WHITE = 255


def side_by_side(original: Matrix64, rep: Matrix64, rebuilt: Matrix64, shape: tuple[int, int]) -> Pixels:
    """Return one line of tiles for each row: the row, what is sent, and what colluders can rebuild [1]_.

    Parameters
    ----------
    original, rebuilt : (n, h * w) ndarrays of float64
        ``x`` and ``x F F^+``; entries from -1, black, to 1, white.
    rep : (n, l) ndarray of float64
        ``x F``, which has no image shape and is shown as a square. The largest entry of each row is black
        or white.
    shape : (h, w)

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v5, Figures 2 and 5.
    """
    scale = max(1, _TILE_PIXELS // max(shape))
    tile = (scale * shape[0], scale * shape[1])
    lines = [
        np.concatenate(
            [_tile(image, tile) for image in (x.reshape(shape), _square(y), back.reshape(shape))], axis=1
        )
        for x, y, back in zip(original, rep, rebuilt, strict=True)
    ]
    return np.pad(np.concatenate(lines), ((_GAP, 0), (_GAP, 0)), constant_values=_WHITE)


def _square(values: Matrix64) -> Matrix64:
    """Return the numbers line by line in a square, padded with zeros."""
    side = int(np.ceil(np.sqrt(len(values))))
    filled = np.zeros(side * side)
    filled[: len(values)] = values / (np.abs(values).max() or 1)
    return filled.reshape(side, side)


def _tile(values: Matrix64, size: tuple[int, int]) -> Pixels:
    """Return an image of the size asked for, in shades of grey, with a gap to the right and below."""
    down, right = (np.arange(new) * old // new for new, old in zip(size, values.shape, strict=True))
    grey = np.round(127.5 * (1 + np.clip(values[np.ix_(down, right)], -1, 1))).astype(np.uint8)
    return np.pad(grey, ((0, _GAP), (0, _GAP)), constant_values=_WHITE)


def png(pixels: Pixels) -> bytes:
    """Return a greyscale image as a PNG file (ISO/IEC 15948): three chunks, no filter.

    With these ten lines an institution needs no imaging library for one picture.
    """
    height, width = pixels.shape
    lines = np.pad(pixels, ((0, 0), (1, 0)))  # each line begins with the number of its filter
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    ]
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
