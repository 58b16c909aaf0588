"""The privacy desk: what is done to a party's rows before anything leaves, and how to see its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from protocol.codec import explain
from protocol.errors import InputError
from protocol.gaussian_mechanism import gaussian_sigma
from protocol.labels import Task
from protocol.messages import PrivacyRecord
from protocol.table_schema import Schema
from protocol.terms import Terms
from user_client.custody.keystream import KeyStream
from user_client.custody.scratch import Scratch
from user_client.privacy.information import Information, information
from user_client.privacy.isolation import Isolated, isolated
from user_client.privacy.noise import add_noise, add_shaped, clip_rows, dither_shape
from user_client.privacy.reduction import hidden_share
from user_client.rows import Rows, sample_of
from user_client.sdk.own_map import Mapped, OwnMap, require_own_map
from user_client.sdk.projection import Projection, project
from user_client.sdk.row_order import shuffled
from user_client.secret.basis import axes_of, draw_secret_basis, perturbed, principal_axes
from user_client.secret.expansion import ByteSource, Matrix64, gaussian
from user_client.secret.signal import Moments, OwnScore, Signal, score_from, score_of
from user_client.secret.targets import Targets, targets_of

KEPT_BY_BASIS = 0.95
"""Of the party's own score (R squared), where the leading axes alone do not keep so much."""
NRI_PERTURBATION = 0.05
"""Default perturbation of the basis under NRI-DC (Nosaka and Yoshise, Algorithm 2, step 3)."""
MAX_HOLD_OUT = 0.5
"""Of the rows, as in the terms."""
MEASURED_ROWS, MEASURED_BYTES = 20_000, 64 * 2**20
"""What is measured on rows, and attacked, is all of them up to this number and size, or so many at random."""
_NUMBER: Final = ((int, float, np.integer, np.floating), "a number, such as 0.2")
_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    **dict.fromkeys(
        ("epsilon", "delta", "clip", "drop_below", "perturb_basis", "dither", "hold_out"), _NUMBER
    ),
    "latent_dim": ((int, np.integer), "a whole number, such as 10"),
    "own_map": ((str,), "a text: random-features, kernel-pca, or the path of a file that ends in .onnx"),
}
"""What the fields of `PrivacyOptions` may be, and in words."""
Labels = NDArray[Any]


@dataclass(frozen=True)
class PrivacyOptions:
    """What to do to the rows before they leave; the signed manifest states it. Valid once constructed.

    Attributes
    ----------
    epsilon, delta, clip : float
        Gaussian noise on every row, after clipping it to the length ``clip``: (epsilon, delta)-differential
        privacy of each row. All three must be given, or none.
    drop_below : float
        Leave out rows of which the projection drops less than this share (epsilon-DR).
    permute_rows : bool
        Send the rows in a random order that is not stored.
    perturb_basis : float
        Draw the basis from the rows plus this times uniform noise.
    dither : float
        Add noise to the projected rows, this times their own standard deviation along every direction; at
        least that of the terms, which is the default.
    hold_out : float
        Keep back this share of the rows to evaluate on, 0 for none; unless it is given, the share of the
        terms. The manifest does not state it.
    latent_dim : int
        Send so many numbers of each row, where the terms leave the choice to each institution; unless it is
        given, as many as they allow. The manifest states it as the width of its arrays.
    own_map : str
        Map the rows and the anchor by a non-linear function of our own first, where the terms allow it:
        "random-features", "kernel-pca", or the path of an ONNX file. The manifest does not state it.

    Raises
    ------
    InputError
        If a value is of another kind, a number is out of its range, or some but not all of the options for
        noise are given.
    """

    epsilon: float | None = None
    delta: float | None = None
    clip: float | None = None
    drop_below: float | None = None
    permute_rows: bool = False
    perturb_basis: float | None = None
    dither: float | None = None
    hold_out: float | None = None
    latent_dim: int | None = None
    own_map: str | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        self.record()
        if self.own_map is not None:
            require_own_map(self.own_map)
            if self.epsilon is not None or self.drop_below is not None:
                raise InputError(
                    "noise with an epsilon and drop_below are about linear maps of rows: leave them out, or"
                    " the own_map"
                )
        if self.hold_out is not None and not 0 <= self.hold_out <= MAX_HOLD_OUT:
            raise InputError(f"hold_out must be between 0 and {MAX_HOLD_OUT}, got {self.hold_out:g}")

    def _check_kinds(self) -> None:
        """Raise `InputError` for a value of another kind than its field has, such as the text of a number."""
        for name, (kinds, what) in _KINDS.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise InputError(f"{name} is {what}, got {value!r}")

    def record(self) -> PrivacyRecord:
        """Return these options as the manifest states them."""
        try:
            return PrivacyRecord(**{name: getattr(self, name) for name in PrivacyRecord.model_fields})
        except ValidationError as error:
            raise InputError(f"privacy options: {explain(error)}") from None

    @property
    def sigma(self) -> float | None:
        """Standard deviation of the noise on each entry; None without noise.

        Replacing a row moves it, clipped, by at most twice the clipping length.
        """
        if self.epsilon is None or self.delta is None or self.clip is None:
            return None
        return gaussian_sigma(self.epsilon, self.delta, sensitivity=2 * self.clip)


def own_dim(options: PrivacyOptions, terms: Terms, party: str) -> int:
    """Return how many numbers of each row a party sends, l_i.

    Raises
    ------
    InputError
        If the options ask for a number that the terms do not allow.
    """
    allowed = terms.latent_dims_of(party)
    if options.latent_dim is None:
        return allowed[-1]
    if options.latent_dim in allowed:
        return options.latent_dim
    if terms.least_latent_dim is None:
        raise InputError(
            f"the terms ask for {terms.latent_dim} numbers of each row from every institution, got"
            f" {options.latent_dim}"
        )
    raise InputError(
        f"the terms allow from {allowed[0]} to {allowed[-1]} numbers of each row, got {options.latent_dim}"
    )


def non_readily_identifiable(options: PrivacyOptions) -> PrivacyOptions:
    """Return the options with what NRI-DC requires in addition: permuted rows and a perturbed basis."""
    return replace(options, permute_rows=True, perturb_basis=options.perturb_basis or NRI_PERTURBATION)


def dithered(options: PrivacyOptions, least: float) -> PrivacyOptions:
    """Return the options with the dither of the terms, if they do not ask for a stronger one.

    Raises
    ------
    InputError
        If they ask for a weaker one.
    """
    if options.dither is None:
        return replace(options, dither=least or None)
    if options.dither < least:
        error = InputError(f"the terms ask for a dither of at least {least:g}, got {options.dither:g}")
        error.hint = "leave out --dither, or ask the lead for other terms"
        raise error
    return options


@dataclass(frozen=True, repr=False)
class Treated:
    """A party's rows as they are projected, with the basis that projects them. All of it is secret."""

    rows: Rows
    """The rows that are projected, in the order in which they leave: with a map, phi_i of them, (n, D)."""
    projection: Projection
    """X~_i, in the same blocks."""
    labels: Labels
    secret_basis: Matrix64
    axes: Matrix64
    singular_values: Matrix64
    """Of all rows, as the basis was drawn from them."""
    signal: Signal | None
    """How much of the own score of these rows lies along the leading axes; None if they cannot tell."""
    original: Rows
    """The same rows before the noise, in the same order and blocks."""
    leaves: NDArray[np.bool_]
    """Which of all rows they are, in the order in which these were given."""
    own_map: OwnMap | None = None
    """phi_i; with one the basis, (D, l), is not of length one but has the scale of `Mapped.scale_for`."""

    @property
    def rep(self) -> Rows:
        """X~_i with its dither, before it is rounded."""
        return self.projection.rep

    def without_rows(self) -> Treated:
        """Return the basis and what it was drawn from, with no row that leaves."""
        return replace(
            self,
            rows=Rows([], self.rows.shape[1]),
            original=Rows([], self.original.shape[1]),
            projection=Projection.of_no_row(self.rep.shape[1]),
            labels=self.labels[:0],
            leaves=np.zeros_like(self.leaves),
        )

    def sample(self) -> Sample:
        """Return the rows to measure and to attack: all, or of a large table a part drawn at random."""
        numbers = measured(self.rows)
        original, rep = self.original.take(numbers), self.rep.take(numbers)
        rows = original if self.rows is self.original else self.rows.take(numbers)
        return Sample(original, rows @ self.secret_basis, rep, self.labels[numbers])


@dataclass(frozen=True, repr=False)
class Sample:
    """Some of the rows that leave, in memory.

    Attributes
    ----------
    original : (s, m) ndarray of float64
        Before the noise.
    projected : (s, l) ndarray of float64
        Projected, with the noise on the rows.
    rep : (s, l) ndarray of float64
        With the dither as well.
    labels : (s,) ndarray
    """

    original: Matrix64
    projected: Matrix64
    rep: Matrix64
    labels: Labels


def with_noise(rows: Matrix64, options: PrivacyOptions, source: ByteSource | None = None) -> Matrix64:
    """Return the rows clipped and with noise, or unchanged if the options have no noise.

    The noise of the next rows comes from the same source, if one is given.
    """
    if options.sigma is None or options.clip is None:
        return rows
    normal = partial(gaussian, source or _secret("row-noise"))
    return add_noise(clip_rows(rows, options.clip), options.sigma, normal)


def draw_basis(
    rows: Matrix64 | Rows, score: OwnScore | None, latent_dim: int, source: ByteSource, *, axes: Matrix64
) -> Matrix64:
    """Draw F_i: the party's leading principal axes, and what these lack of the party's own score.

    Rows often vary most along axes that say nothing about the label (docs/adr/0013). Without a score, the
    axes are all there is.
    """
    directions = score.missing_from(axes, latent_dim, KEPT_BY_BASIS) if score else None
    return draw_secret_basis(rows, latent_dim, source, axes=axes, include=directions)


def bits_of(
    schema: Schema, rows: Matrix64, projected: Matrix64, number_type: str, dither: float
) -> Information | None:
    """Return how many bits an encoded row holds, and how many of them leave."""
    widths = [column.width for column in schema.columns]
    return information(rows, widths, projected, number_type=number_type, dither=dither)


def isolated_by(schema: Schema, rows: Matrix64) -> Isolated | None:
    """Return the column that carries the variance of encoded rows, if one does."""
    names, widths = zip(*((column.name, column.width) for column in schema.columns), strict=True)
    return isolated(rows, names, widths)


def score_targets(labels: Labels, task: Task) -> Targets | None:
    """Return what a party's own score is to tell of its labels, if they can tell anything."""
    return targets_of(labels, are_bits=task == "multilabel", are_times=task == "survival")


@dataclass(frozen=True)
class Draws:
    """Where `treat` draws from: an institution takes `SECRET`, and only a simulation anything else.

    Attributes
    ----------
    stream : callable
        Returns a source of bytes for a purpose.
    basis : callable
        Draws F_i, with the arguments of `draw_basis`.
    """

    stream: Callable[[str], ByteSource]
    basis: Callable[..., Matrix64] = draw_basis


def _secret(purpose: str) -> ByteSource:
    """Return a key stream whose seed is not stored."""
    return KeyStream.fresh(f"odc/v1/{purpose}").read


SECRET: Final = Draws(_secret)
"""Nobody can repeat what is drawn."""


def treat(
    rows: Rows,
    labels: Labels,
    latent_dim: int,
    options: PrivacyOptions,
    scratch: Scratch,
    task: Task = "classes",
    draws: Draws = SECRET,
    mapped: Mapped | None = None,
) -> Treated:
    """Do to the rows what the options say, draw the secret basis and project.

    A map comes before the basis: what is said of rows below is then said of phi_i of them.
    The noise comes first, and everything after it is computed from the noisy rows alone. The basis depends
    on the rows and A_i reveals something of the basis, so noise on X_i F_i alone would not give the privacy
    that its epsilon promises.

    Raises
    ------
    InputError
        If no row is left.
    """
    leaves = np.ones(len(rows), np.bool_)
    order: NDArray[Any] | None = None
    if options.permute_rows and len(rows):
        rows, order = shuffled(rows, draws.stream("row-order"), scratch)
        labels = labels[order]
    noisy = rows
    if options.sigma is not None:
        source = draws.stream("row-noise")
        noisy = scratch.keep((with_noise(block, options, source) for block in rows.blocks()), rows.shape[1])
    if mapped is not None:
        noisy = mapped.own_map.of_rows(rows, scratch)
    seen = noisy
    if options.perturb_basis is not None:
        strength, source = options.perturb_basis, draws.stream("basis-noise")
        seen = scratch.keep((perturbed(block, strength, source) for block in noisy.blocks()), noisy.shape[1])
    singular_values, axes, score = axes_and_score(seen, labels, task)
    leading = axes[:, : len(singular_values)]
    gram = (leading * singular_values**2) @ leading.T if seen is noisy else None
    basis = draws.basis(seen, score, latent_dim, draws.stream("secret-basis"), axes=axes)
    signal = score.along(axes[:, :latent_dim]) if score else None
    if mapped is not None:
        basis = basis * mapped.scale_for(noisy)
    if options.drop_below is not None and len(rows):
        enough = np.concatenate(
            [hidden_share(block, basis) >= options.drop_below for block in noisy.blocks()]
        )
        if not enough.any():
            error = InputError(
                f"of no row the projection drops {options.drop_below:.1%}, so none would leave"
            )
            error.hint = "lower --drop-below, or ask for terms with a smaller latent dimension"
            raise error
        rows, noisy, labels, gram = rows.where(enough), noisy.where(enough), labels[enough], None
        leaves[slice(None) if order is None else order] = enough
    return Treated(
        rows=noisy,
        projection=project(
            noisy,
            basis,
            scratch,
            _dither(noisy, basis, options, draws, gram),
            is_orthonormal=mapped is None,
        ),
        labels=labels,
        secret_basis=basis,
        axes=axes,
        singular_values=singular_values,
        signal=signal,
        original=rows,
        leaves=leaves,
        own_map=mapped.own_map if mapped else None,
    )


def measured(rows: Rows | Matrix64) -> NDArray[np.int64]:
    """Return the numbers of the rows to measure and to attack: of all, or of some drawn at random."""
    count, features = rows.shape
    most = min(MEASURED_ROWS, max(MEASURED_BYTES // (8 * features), 2 * features))
    return sample_of(count, most, np.random.default_rng(0))


def axes_and_score(rows: Rows, labels: Labels, task: Task) -> tuple[Matrix64, Matrix64, OwnScore | None]:
    """Return the singular values and axes of all rows, and their own score, measured on some of them."""
    count, features = rows.shape
    targets = score_targets(labels, task)
    if count < features:  # few enough for memory, which has to hold all axes, (m, m)
        few = np.asarray(rows)
        return *principal_axes(few), score_of(few, targets)
    moments = Moments.of(rows, targets)
    singular_values, axes = axes_of(moments.gram)
    if targets is None:
        return singular_values, axes, None
    numbers = measured(rows)
    return singular_values, axes, score_from(moments, targets, rows.take(numbers), numbers)


def _dither(
    rows: Rows, basis: Matrix64, options: PrivacyOptions, draws: Draws, gram: Matrix64 | None
) -> Callable[[Matrix64], Matrix64] | None:
    """Return what gives projected rows the dither that the options ask for, if they do.

    ``gram`` is ``rows.T @ rows``, if it is known.
    """
    if options.dither is None or not len(rows):
        return None
    gram = Moments.of(rows, None).gram if gram is None else gram
    shape = dither_shape(basis.T @ gram @ basis / len(rows), options.dither)
    return partial(add_shaped, shape=shape, standard_normal=partial(gaussian, draws.stream("dither")))
