from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest

from user_client.privacy.picture import png, side_by_side

TILE, GAP = 112, 8


def decoded(data: bytes) -> np.ndarray:
    """Read a greyscale PNG without filters by its specification, and check its checksums."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(kind + body),)
        chunks[kind], at = body, at + 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 0, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (300, 2)])
def test_a_picture_reads_back_as_its_pixels(shape: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(decoded(png(pixels)), pixels)


def test_an_imaging_library_reads_the_same_pixels() -> None:
    image = pytest.importorskip("PIL.Image", reason="only to read what we write")
    pixels = np.random.default_rng(0).integers(0, 256, (17, 40)).astype(np.uint8)
    np.testing.assert_array_equal(np.asarray(image.open(io.BytesIO(png(pixels)))), pixels)


def tiles(pixels: np.ndarray, rows: int) -> np.ndarray:
    """Return the tiles of a picture, (rows, 3, 112, 112), after checking the white around them."""
    step = TILE + GAP
    assert pixels.shape == (rows * step + GAP, 3 * step + GAP)
    framed = pixels[GAP:, GAP:].reshape(rows, step, 3, step).transpose(0, 2, 1, 3)
    assert (framed[:, :, TILE:] == 255).all()
    assert (framed[:, :, :, TILE:] == 255).all()
    return np.asarray(framed[:, :, :TILE, :TILE])


@pytest.mark.parametrize("side", [2, 7, 28, 112])
def test_rows_are_shown_beside_what_is_sent_and_what_can_be_rebuilt(side: int) -> None:
    rng = np.random.default_rng(side)
    original, rebuilt = rng.uniform(-1, 1, (2, 3, side * side))
    rep = rng.standard_normal((3, 3))
    found = tiles(side_by_side(original, rep, rebuilt, (side, side)), 3)
    step = TILE // side
    for column, values in ((0, original), (2, rebuilt)):
        middle = found[:, column, step // 2 :: step, step // 2 :: step].astype(float) / 127.5 - 1
        np.testing.assert_allclose(middle.reshape(3, -1), values, rtol=0, atol=0.5 / 127.5 + 1e-12)
    drawn = found[:, 1, TILE // 4 :: TILE // 2, TILE // 4 :: TILE // 2].reshape(3, 4) / 127.5 - 1
    largest = np.abs(rep).max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        drawn, np.pad(rep / largest, ((0, 0), (0, 1))), rtol=0, atol=0.5 / 127.5 + 1e-12
    )


def test_values_beyond_the_scale_are_black_or_white() -> None:
    found = tiles(side_by_side(np.array([[-3.0, 3, 0, 0]]), np.zeros((1, 4)), np.zeros((1, 4)), (2, 2)), 1)
    assert (found[0, 0, 0, 0], found[0, 0, 0, -1]) == (0, 255)
    assert (found[0, 1] == 128).all()


def test_a_large_image_is_drawn_at_its_own_size() -> None:
    row = np.zeros((1, 200 * 150))
    assert side_by_side(row, np.ones((1, 2)), row, (200, 150)).shape == (200 + 2 * GAP, 3 * (150 + GAP) + GAP)
