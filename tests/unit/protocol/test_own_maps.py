"""Terms under which institutions may map their rows by functions of their own."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from protocol.alignment_terms import AlignmentTerms, AutoAlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.terms import Terms
from tests.harness.world import make_terms

MAPPED: dict[str, Any] = {
    "own_maps": ("kernel-pca", "random-features"),
    "latent_dim": 4,
    "anchor": AnchorTerms(kind="gaussian", rows=40),
    "alignment": AlignmentTerms(method="kawakami"),
}


def mapped(**changed: Any) -> Terms:
    return make_terms(**{**MAPPED, **changed})


def test_terms_without_maps_have_no_such_field_on_the_wire() -> None:
    assert b"own_maps" not in encode(make_terms())
    assert decode(Terms, encode(mapped())) == mapped()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"own_maps": ("random-features", "kernel-pca")}, "distinct and sorted: kernel-pca, random-features"),
        ({"own_maps": ("onnx", "onnx")}, "distinct and sorted: onnx"),
        (
            {"alignment": AlignmentTerms(method="isotropic")},
            "must be imakura or kawakami: isotropic needs an",
        ),
        ({"alignment": AutoAlignmentTerms(candidates=("imakura", "odc"))}, "imakura or kawakami: odc needs"),
        ({"anchor": AnchorTerms(kind="haar", rows=4)}, "must be gaussian or uniform or public, not haar"),
        ({"anchor": AnchorTerms(kind="gaussian", rows=39)}, "at least 40 rows, 10 for each of the 4 numbers"),
        ({"downlink": "anchor-predictions"}, "own_maps do not go with anchor-predictions"),
        ({"terms_schema": 1}, "own_maps needs terms_schema 2"),
    ],
)
def test_terms_that_cannot_work_are_refused_in_words(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        mapped(**changed)


@pytest.mark.parametrize("method", ["imakura", "kawakami"])
def test_least_squares_align_any_maps(method: Any) -> None:
    assert mapped(alignment=AlignmentTerms(method=method)).own_maps == MAPPED["own_maps"]


def test_people_read_which_maps_there_may_be_and_that_they_hide_nothing() -> None:
    text = plain_words(mapped())
    assert "kernel-pca (principal axes of a Gaussian kernel with rows of the anchor); random-features" in text
    assert "onnx (" not in text
    assert "Such a map hides no row" in text
    assert "non-linear" not in plain_words(make_terms())
