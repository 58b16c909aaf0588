from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from protocol.codec import Message, decode
from protocol.errors import DtypeMismatchError, ShapeMismatchError, TermsMismatchError
from protocol.limits import MAX_ARRAY_BYTES
from protocol.messages import (
    DTYPE_BYTES,
    ArraySpec,
    DownlinkManifest,
    UplinkManifest,
)
from protocol.terms import Terms
from protocol.uplinks import check_uplink
from tests.vectors import examples
from tests.vectors.packing import pack

TERMS = decode(Terms, pack(examples.TERMS))


def uplink(*path: str | int, to: Any = None) -> UplinkManifest:
    return decode(UplinkManifest, pack(examples.changed(examples.UPLINK, *path, to=to)))


def downlink() -> DownlinkManifest:
    return decode(DownlinkManifest, pack(examples.DOWNLINK))


def spec(dtype: str, *shape: int) -> ArraySpec:
    return ArraySpec(name="x", dtype=dtype, shape=shape, digest=bytes(32))  # type: ignore[arg-type]


def test_the_arrays_of_an_uplink_have_names() -> None:
    manifest = uplink("chunk_bytes", to=65536)
    assert manifest.rep.shape == (3, 2)
    assert manifest.anchor_rep.shape == (3, 2)
    assert manifest.labels.shape == (3,)


def test_the_arrays_of_a_downlink_have_names() -> None:
    assert downlink().change_of_basis.shape == (2, 2)
    assert downlink().model.shape == (150_000,)


@pytest.mark.parametrize(("dtype", "size"), sorted(DTYPE_BYTES.items()))
def test_an_array_has_its_entries_times_their_size(dtype: str, size: int) -> None:
    assert spec(dtype, 3, 5).payload_bytes == 15 * size
    assert spec(dtype, 0, 5).payload_bytes == 0


def test_an_array_may_have_one_tebibyte_and_no_more() -> None:
    assert spec("f8", 2**27, 2**10).payload_bytes == MAX_ARRAY_BYTES
    with pytest.raises(ValidationError, match="at most 1099511627776 bytes"):
        spec("f8", 2**27 + 1, 2**10)


def test_an_uplink_that_the_terms_promise_is_taken() -> None:
    check_uplink(uplink("chunk_bytes", to=65536), TERMS)


def test_a_wrong_shape_is_said_with_both_shapes() -> None:
    with pytest.raises(ShapeMismatchError, match=r"^anchor representation: expected \(3, 2\), got \(4, 2\)$"):
        check_uplink(uplink("arrays", 1, "shape", to=[4, 2]), TERMS)
    with pytest.raises(ShapeMismatchError, match=r"^representation: expected \(rows, 2\), got \(3, 1\)$"):
        check_uplink(uplink("arrays", 0, "shape", to=[3, 1]), TERMS)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_wrong_number_type_is_said_with_both_types(position: int) -> None:
    with pytest.raises(DtypeMismatchError, match=r"expected .., got i8"):
        check_uplink(uplink("arrays", position, "dtype", to="i8"), TERMS)


@pytest.mark.parametrize(("stated", "asked"), [(None, 0.0), (0.5, 0.0), (0.5, 0.5), (0.75, 0.5)])
def test_as_much_dither_as_the_terms_ask_for_is_taken(stated: float | None, asked: float) -> None:
    manifest = decode(UplinkManifest, pack(examples.UPLINK if stated is None else examples.DITHERED_UPLINK))
    privacy = manifest.privacy.model_copy(update={"dither": stated})
    terms = TERMS.model_copy(update={"terms_schema": 2, "dither": asked})
    check_uplink(manifest.model_copy(update={"privacy": privacy}), terms)


@pytest.mark.parametrize("stated", [None, 0.25])
def test_less_dither_than_the_terms_ask_for_is_refused(stated: float | None) -> None:
    privacy = uplink("chunk_bytes", to=65536).privacy.model_copy(update={"dither": stated})
    manifest = uplink("chunk_bytes", to=65536).model_copy(update={"privacy": privacy})
    with pytest.raises(TermsMismatchError, match=r"a dither of 0(\.25)?, not 0\.5 or more"):
        check_uplink(manifest, TERMS.model_copy(update={"terms_schema": 2, "dither": 0.5}))


def test_every_kind_of_message_is_signed_under_a_label_of_its_own() -> None:
    labels = [kind.signing_label for kind in Message.__subclasses__() if hasattr(kind, "signing_label")]
    assert len(set(labels)) == len(labels)
    assert all(label.startswith("odc/v1/") and label.isascii() and "\0" not in label for label in labels)
