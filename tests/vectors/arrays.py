"""The cases of uplinks.json, streams.json and scaled.json: from a manifest to the bytes of its arrays."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.vectors.examples import (
    ANCHOR_REP,
    ANCHOR_REP_I1,
    ANCHOR_REP_SCALE,
    CHUNK_BYTES,
    CONSUMER_UPLINK,
    LABELS,
    MODEL,
    REP,
    REP_I1,
    REP_SCALE,
    SCALED_TERMS,
    SCALED_UPLINK,
    TERMS,
    UPLINK,
    Case,
    array,
    array_stream,
    changed,
    f32,
    scaled,
)
from tests.vectors.fewer import uplinks_of_fewer
from tests.vectors.joined import uplinks_of_joined
from tests.vectors.packing import pack, to_json


def uplinks() -> Iterator[Case]:
    halves = changed(SCALED_UPLINK, "arrays", 1, "dtype", to="f2")
    of_one_width = [
        ("as the terms promise", "valid", UPLINK),
        ("a consumer without rows", "valid", CONSUMER_UPLINK),
        ("one latent dimension too many", "shape-mismatch", changed(UPLINK, "arrays", 0, "shape", to=[3, 3])),
        ("one anchor row too few", "shape-mismatch", changed(UPLINK, "arrays", 1, "shape", to=[2, 2])),
        ("doubles instead of singles", "dtype-mismatch", changed(UPLINK, "arrays", 0, "dtype", to="f8")),
        ("an anchor of halves", "dtype-mismatch", changed(UPLINK, "arrays", 1, "dtype", to="f2")),
        ("labels in 16 bits for two classes", "dtype-mismatch",
            changed(UPLINK, "arrays", 2, "dtype", to="u2")),
        ("scaled 8-bit integers as the terms promise", "valid", SCALED_UPLINK),
        ("scaled 8-bit integers, but an anchor of halves", "dtype-mismatch", halves),
        ("singles where the terms say 8-bit integers", "dtype-mismatch",
            {**UPLINK, "terms_digest": SCALED_UPLINK["terms_digest"]}),
    ]  # fmt: skip
    under = {UPLINK["terms_digest"]: TERMS, SCALED_UPLINK["terms_digest"]: SCALED_TERMS}
    judged = [(*case, under[case[2]["terms_digest"]]) for case in of_one_width]
    for name, verdict, manifest, terms in [*judged, *uplinks_of_fewer(), *uplinks_of_joined()]:
        yield {
            "name": name,
            "verdict": verdict,
            "terms": pack(terms).hex(),
            "manifest": pack(manifest).hex(),
            "whole_digest": hashlib.sha256(b"".join(a["digest"] for a in manifest["arrays"])).hexdigest(),
        }


def streams() -> Iterator[Case]:
    def case(
        name: str,
        verdict: str,
        arrays: Sequence[Mapping[str, Any]],
        *parts: tuple[bytes, int],
        chunks: int,
        classes: int | None = None,
    ) -> Case:
        whole = b"".join(data * times for data, times in parts)
        return {
            "name": name,
            "verdict": verdict,
            "chunk_bytes": CHUNK_BYTES,
            "classes": classes,
            "arrays": [to_json(item) for item in arrays],
            "parts": [[data.hex(), times] for data, times in parts],
            "stream_bytes": len(whole),
            "stream_sha256": hashlib.sha256(whole).hexdigest(),
            "good_chunks": chunks,
        }

    small = UPLINK["arrays"]
    pieces = [array_stream(data) for data in (REP, ANCHOR_REP, LABELS)]
    whole = b"".join(pieces)
    yield case("the arrays of the example uplink", "valid", small, (whole, 1), chunks=3, classes=2)
    yield case("an uplink without rows", "valid", CONSUMER_UPLINK["arrays"], (pieces[1], 1), chunks=1,
               classes=2)  # fmt: skip
    yield case("nothing yet", "incomplete", small, chunks=0)
    yield case("cut off inside the second chunk", "incomplete", small, (whole[:70], 1), chunks=1)
    yield case("a byte too many", "limit-exceeded", small, (whole + b"\0", 1), chunks=3)
    for name, offset, good in [("digest", 0, 0), ("data", 32, 0), ("data of the last chunk", -1, 2)]:
        flipped = bytearray(whole)
        flipped[offset] ^= 1
        yield case(f"a bit flipped in the {name}", "digest-mismatch", small, (bytes(flipped), 1), chunks=good)
    swapped = pieces[1] + pieces[0] + pieces[2]
    yield case("two arrays exchanged, which only the array digest shows", "array-digest-mismatch", small,
               (swapped, 1), chunks=3)  # fmt: skip

    spoilt = struct.pack("<6f", 0.5, -0.25, 1.0, math.nan, -1.0, 0.125)
    yield case("a NaN in row 1", "not-finite", [array("rep", "f4", (3, 2), spoilt)],
               (array_stream(spoilt), 1), chunks=1)  # fmt: skip
    spoilt = struct.pack("<2e", 1.0, math.inf)
    yield case("an infinity in half precision", "not-finite", [array("rep", "f2", (2, 1), spoilt)],
               (array_stream(spoilt), 1), chunks=1)  # fmt: skip
    spoilt = bytes([0, 2, 1])
    yield case("a label beyond the classes", "label-out-of-range", [array("labels", "u1", (3,), spoilt)],
               (array_stream(spoilt), 1), chunks=1, classes=2)  # fmt: skip
    ends, beyond = struct.pack("<3f", -1.0, 1.0, 0.25), struct.pack("<3f", -1.0, 1.0, 1.0000001)
    yield case("numbers to predict", "valid", [array("labels", "f4", (3,), ends)],
               (array_stream(ends), 1), chunks=1)  # fmt: skip
    yield case("a number to predict beyond its range", "label-out-of-range",
               [array("labels", "f4", (3,), beyond)], (array_stream(beyond), 1), chunks=1)  # fmt: skip

    arrays = [REP_I1, ANCHOR_REP_I1, LABELS, REP_SCALE, ANCHOR_REP_SCALE]
    whole = b"".join(map(array_stream, arrays))
    yield case("scaled 8-bit integers", "valid", SCALED_UPLINK["arrays"], (whole, 1), chunks=5)
    for name, value in [
        ("a negative scale", -0.25),
        ("a scale that is no number", math.nan),
        ("a scale too large", f32(2.0**120 * 1.5)),
    ]:
        spoilt = struct.pack("<2f", 0.5, value)
        yield case(name, "not-finite", [array("rep_scale", "f4", (2,), spoilt)],
                   (array_stream(spoilt), 1), chunks=1)  # fmt: skip
    largest = struct.pack("<2f", 0.0, 2.0**120)
    yield case("the smallest and the largest scale", "valid", [array("rep_scale", "f4", (2,), largest)],
               (array_stream(largest), 1), chunks=1)  # fmt: skip

    # three chunks of a pattern of 251 bytes, the last one shorter
    run = bytes(range(251))
    parts: list[tuple[bytes, int]] = []
    for start in range(0, len(MODEL), CHUNK_BYTES):
        chunk = MODEL[start : start + CHUNK_BYTES]
        lead = run[start % 251 :]
        times, rest = divmod(len(chunk) - len(lead), 251)
        parts += [(hashlib.sha256(chunk).digest() + lead, 1), (run, times), (run[:rest], 1)]
    model = [array("model", "u1", (len(MODEL),), MODEL)]
    yield case("an array of three chunks, byte k is k mod 251", "valid", model, *parts, chunks=3)
    yield case("an array of three chunks without the last", "incomplete", model, *parts[:6], chunks=2)


def scaled_matrices() -> Iterator[Case]:
    """Yield matrices as 8-bit integers, and what a receiver computes with."""
    for name, rows in [
        ("the representation of the example", [[0.6, -0.25], [1.0, 0.0], [-1.0, 0.1]]),
        ("its anchor representation", [[0.75, 0.6], [-0.4, 0.2], [0.0, 1.0]]),
        ("one number", [[-3.0]]),
        ("a column of zeros", [[0.0, 1e-3], [0.0, -7e-4]]),
        ("a number next to a tie, which the rounding of the scale decides", [[0.818], [0.4154409449]]),
        ("columns of very different size", [[1e-20, 1e20], [3e-21, -9e19]]),
    ]:
        values, scale = scaled(rows)
        decoded = [f32(value * s) for row in values for value, s in zip(row, scale, strict=True)]
        yield {
            "name": name,
            "matrix": rows,
            "values": values,
            "scale": struct.pack(f"<{len(scale)}f", *scale).hex(),
            "decoded": struct.pack(f"<{len(decoded)}f", *decoded).hex(),
        }
