"""Sealed sums: the second kind of uplink. What both sides must agree on (docs/protocol.md, "Sums").

Each institution sends the sum of ``z z^T`` over its rows, with ``z = (1, phi, y)``: the features of a row in
secret coordinates, and its label. The sum is a matrix of integers modulo 2^64, masked so that the analyst
learns the total over all institutions and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from protocol.codec import Message
from protocol.labels import AnyLabel
from protocol.limits import MAX_RANDOM_FEATURES, MAX_ROWS, MAX_SUMS_NUMBERS, MAX_SUMS_PARTIES
from protocol.model_terms import QuadraticDiscriminantTerms, RidgeTerms
from protocol.sums_noise import SMALL, SumsNoise, bits_of
from protocol.table_schema import CategoricalColumn, Column, LevelsColumn, NumericColumn, RanksColumn, Schema

if TYPE_CHECKING:  # which imports this module
    from protocol.terms import Terms

SUMS: Final = "sums"
"""The name of the one array of such an uplink."""
TOTAL: Final = "total"
"""The name of the total, where the downlink brings it."""
MASK_KEY_BYTES: Final = 32
"""An X25519 public key."""
FEWEST_PARTIES: Final = 3
"""Of two institutions, each would learn the sum of the other."""
_VALUE_BITS: Final = 62
"""A total of fixed-point numbers needs at most so many bits and its sign: of 64, one is to spare."""
_COMMITMENT_LABEL: Final = b"odc/v1/sums-commitment\x00"


class SumsTerms(Message):
    """What is summed, and for how many rows the sums are made."""

    random_features: int = Field(default=0, ge=0, le=MAX_RANDOM_FEATURES)
    """D random Fourier features of the encoded row, beside the encoded row itself."""
    kernel_width: float | None = Field(default=None, gt=0, le=1e6)
    """Width s of the Gaussian kernel ``exp(-||x - x'||^2 / (2 s^2))`` that they stand for."""
    penalty: float | None = Field(default=None, gt=0, le=1e6)
    """Of the ridge regression, as a multiple of the mean variance of a feature. None: generalised
    cross-validation chooses it from the total."""
    max_rows: int = Field(default=1_000_000, ge=1, le=MAX_ROWS)
    """Most rows of one institution: the fixed point has room for that many of each."""
    min_rows: int = Field(default=20, ge=2, le=MAX_ROWS)
    """Fewest rows of one institution, which refuses by itself to send a sum of fewer."""
    cohort: bool = False
    """Whether each institution gets the total. Terms without it have no such field on the wire."""

    noise: SumsNoise | None = None
    """Noise in the total. Terms without it have no such field on the wire."""

    @model_serializer(mode="wrap")
    def _without_unused(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialise(self)
        if not self.cohort:
            del content["cohort"]
        if self.noise is None:
            del content["noise"]
        return content

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.random_features > 0) != (self.kernel_width is not None):
            raise ValueError("random_features and kernel_width go together")
        if self.min_rows > self.max_rows:
            raise ValueError("min_rows must be at most max_rows")
        if self.cohort and self.noise is not None:
            raise ValueError("cohort does not go with noise: what is read from the total would be noisy")
        return self

    def features(self, schema: Schema) -> int:
        """Return how many features are summed, d: the encoded ones and the random ones."""
        return schema.width + self.random_features


def order_of(features: int, label: AnyLabel) -> int:
    """Return p, the length of ``z = (1, phi, y)``: y is one-hot for classes, and one number otherwise."""
    return 1 + features + label.outputs


def entries_of(order: int) -> int:
    """Return how many numbers are sent: the upper triangle of a (p, p) matrix, row by row."""
    return order * (order + 1) // 2


def sent_numbers(terms: Terms) -> int:
    """Return how many numbers an institution sends: one triangle, or by class one for each."""
    label = terms.table_schema.label_column
    if is_by_class(terms):
        return label.outputs * entries_of(1 + terms.latent_dim)
    return entries_of(order_of(terms.latent_dim, label))


def is_by_class(terms: Terms) -> bool:
    """Return whether the rows of each class are summed by themselves, with ``z = (1, phi)``."""
    return isinstance(terms.model, QuadraticDiscriminantTerms)


def check_parties(parties: Sequence[str]) -> None:
    """Raise `ValueError` if masks cannot cover the sums of so few, or of so many."""
    if not FEWEST_PARTIES <= len(parties) <= MAX_SUMS_PARTIES:
        raise ValueError(
            f"sums need {FEWEST_PARTIES} to {MAX_SUMS_PARTIES} institutions: two would learn each other's"
        )


def exponent_of(sums: SumsTerms, schema: Schema, parties: int) -> int:
    """Return e: a number on the wire is ``2^e`` times what it stands for, rounded to an integer.

    It is the largest for which the total over all institutions cannot overflow: an entry of ``z z^T`` is at
    most the larger of 1 and ``||phi||^2``. With noise, rows have length 1 and e is even.
    """
    if sums.noise is not None:
        return 2 * bits_of(sums.max_rows * parties)
    largest = max(1.0, sum(map(_largest_square, schema.columns)) + (2.0 if sums.random_features else 0.0))
    return _VALUE_BITS - math.ceil(math.log2(largest * sums.max_rows * parties))


def _largest_square(column: Column) -> float:
    """Return a bound of the sum of the squares of the features of one column."""
    if isinstance(column, NumericColumn | CategoricalColumn):
        return 1.0
    missing = 0.0 if column.missing_share is None else 1.0
    if isinstance(column, RanksColumn):
        return 1.0 + missing
    if isinstance(column, LevelsColumn):  # one level less its share, and the shares of all others
        return 2.0 * column.weight**2 + missing
    return 4.0 + missing  # centred inside [-1, 1], it lies in [-2, 2]


def sums_commitment(seed: bytes, mask_keys: Sequence[bytes]) -> bytes:
    """Return the commitment to the seed and to all mask keys: equal commitments mean equal keys."""
    return sha256(_COMMITMENT_LABEL + seed + b"".join(mask_keys)).digest()


def check_sums_terms(terms: Terms, sums: SumsTerms) -> None:
    """Raise `ValueError` unless the other fields of terms with sums go with them."""
    check_parties(terms.parties)
    if sums.noise is not None:
        _check_noise(terms, sums, sums.noise)
    if terms.task not in ("classes", "number"):
        raise ValueError(f"sums serve classes and numbers: {terms.task} needs rows")
    if not is_by_class(terms) and terms.model != RidgeTerms():
        raise ValueError(
            'under sums the model is {kind = "ridge"}, whose penalty is in sums,'
            ' or {kind = "quadratic-discriminant"}'
        )
    if is_by_class(terms):
        _check_by_class(terms, sums)
    if (features := sums.features(terms.table_schema)) != terms.latent_dim:
        raise ValueError(f"under sums latent_dim is the number of features that are summed: {features}")
    if not terms.anchor.traits.is_isotropic:
        raise ValueError("under sums the anchor is a haar one: only its seed is used")
    if terms.sealing_suite is not None:
        raise ValueError("sums agree on their masks by X25519: leave sealing_suite out")
    for name in _MEANINGLESS:
        if getattr(terms, name) != type(terms).model_fields[name].get_default():
            raise ValueError(f"{name} means nothing under sums: leave it out")


def _check_by_class(terms: Terms, sums: SumsTerms) -> None:
    if terms.task != "classes":
        raise ValueError("a quadratic-discriminant predicts classes")
    if sums.noise is not None or sums.cohort:
        raise ValueError("a quadratic-discriminant goes with neither noise nor cohort")
    if (count := sent_numbers(terms)) > MAX_SUMS_NUMBERS:
        raise ValueError(f"these sums by class are {count} numbers, and {MAX_SUMS_NUMBERS} is the most")


def _check_noise(terms: Terms, sums: SumsTerms, noise: SumsNoise) -> None:
    parties, label = len(terms.parties), terms.table_schema.label_column
    if noise.colluding >= parties:
        raise ValueError("fewer institutions collude than there are: noise.colluding")
    bits, order = bits_of(sums.max_rows * parties), order_of(terms.latent_dim, label)
    if noise.added_delta(label, parties, order, bits) > SMALL * noise.delta:
        raise ValueError("noise in so few digits does not give this delta: lower max_rows or epsilon")


_MEANINGLESS: Final = (
    "rep_dtype",
    "alignment",
    "downlink",
    "dither",
    "least_signal",
    "model_privacy",
    "exposure",
    "late_consumers",
)
"""Fields of terms that are about rows that leave."""
