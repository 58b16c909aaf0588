"""Terms under which each institution chooses how many numbers of a row it sends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from protocol.alignment_terms import AlignmentTerms, AutoAlignmentTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.errors import ShapeMismatchError
from protocol.messages import UplinkManifest
from protocol.terms import Terms
from protocol.uplinks import check_uplink
from tests.harness.world import HOSPITAL, LEAD, make_terms, make_uplink

FEWER: dict[str, Any] = {
    "least_latent_dim": 2,
    "latent_dim": 4,
    "alignment": AlignmentTerms(method="imakura"),
}
WITHOUT_X1 = ({"party": HOSPITAL, "columns": ("x1",)},)


def fewer(**changed: Any) -> Terms:
    return make_terms(**{**FEWER, **changed})


def test_terms_without_a_choice_have_no_such_field_on_the_wire() -> None:
    assert b"least_latent_dim" not in encode(make_terms())
    assert decode(Terms, encode(fewer())) == fewer()


def test_a_party_may_send_from_the_least_to_the_latent_dimension_or_its_features() -> None:
    terms = fewer(absent_columns=WITHOUT_X1)
    assert terms.latent_dims_of(LEAD) == range(2, 5)
    assert terms.latent_dims_of(HOSPITAL) == range(2, 4)
    assert make_terms(latent_dim=2).latent_dims_of(LEAD) == range(2, 3)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"least_latent_dim": 5}, "least_latent_dim must be at most latent_dim, 4"),
        ({"alignment": AlignmentTerms(method="isotropic")}, "must be imakura or kawakami: isotropic needs"),
        ({"alignment": AutoAlignmentTerms(candidates=("imakura", "odc"))}, "imakura or kawakami: odc needs"),
        ({"terms_schema": 1}, "least_latent_dim needs terms_schema 2"),
        (
            {"absent_columns": WITHOUT_X1, "least_latent_dim": 4},
            "least_latent_dim must be at most the 3 encoded features that",
        ),
    ],
)
def test_terms_that_cannot_work_are_refused_in_words(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        fewer(**changed)


def test_several_alignments_of_unlike_widths_may_be_compared() -> None:
    assert fewer(alignment=AutoAlignmentTerms(candidates=("imakura", "kawakami"))).least_latent_dim == 2


@pytest.mark.parametrize("own", [2, 3, 4])
def test_an_uplink_of_each_allowed_width_passes(own: int) -> None:
    check_uplink(manifest(fewer(), own, own), fewer())


@pytest.mark.parametrize(
    ("rep", "anchor_rep", "says"),
    [
        (1, 1, r"representation: expected \(rows, 2 to 4\), got \(3, 1\)"),
        (5, 5, r"representation: expected \(rows, 2 to 4\), got \(3, 5\)"),
        (3, 4, r"anchor representation: expected \(4, 3\), got \(4, 4\)"),
    ],
)
def test_one_of_another_width_is_refused(rep: int, anchor_rep: int, says: str) -> None:
    with pytest.raises(ShapeMismatchError, match=says):
        check_uplink(manifest(fewer(), rep, anchor_rep), fewer())


def test_a_party_that_lacks_columns_may_not_send_more_numbers_than_it_has_features() -> None:
    terms = fewer(absent_columns=WITHOUT_X1)
    check_uplink(manifest(terms, 3, 3), terms)
    with pytest.raises(ShapeMismatchError, match="2 to 3"):
        check_uplink(manifest(terms, 4, 4), terms)


def test_people_read_the_range_and_who_is_told() -> None:
    text = plain_words(fewer(least_signal=0.9))
    assert "2 to 4 numbers (8 to 16 bytes) in place of its 4 encoded features" in text
    assert "with the same basis (32 to 64 bytes)" in text
    assert "every institution reads the choice in the report" in text
    assert "along as many leading axes of its rows as it sends numbers of each" in text


def manifest(terms: Terms, rep: int, anchor_rep: int) -> UplinkManifest:
    anchor_of_other_width = np.zeros((terms.anchor.rows, anchor_rep), "<f4")
    arrays = {"anchor_rep": anchor_of_other_width} if anchor_rep != rep else None
    return make_uplink(terms, HOSPITAL, rows=3, own_dim=rep, arrays=arrays).manifest
