"""The privacy desk: what is done to a party's rows before anything leaves, and the risk that stays."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from protocol.codec import explain
from protocol.errors import InputError
from protocol.messages import PrivacyRecord
from user_client.custody.keystream import KeyStream
from user_client.privacy.noise import add_noise, clip_rows, gaussian_sigma
from user_client.privacy.reduction import hidden_share
from user_client.secret.basis import draw_secret_basis, perturbed, principal_axes
from user_client.secret.expansion import ByteSource, Matrix64, gaussian, permutation

NRI_PERTURBATION = 0.05
"""Of the basis, where nothing else is asked for: Nosaka and Yoshise, Algorithm 2, step 3."""
Labels = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class PrivacyOptions:
    """What to do to the rows; the signed manifest says so. Valid once constructed.

    Attributes
    ----------
    epsilon, delta, clip : float
        Gaussian noise on every row, after clipping it to the length ``clip``: (epsilon, delta)-differential
        privacy of each row. The three go together.
    drop_below : float
        Leave out rows of which the projection hides less than this share (epsilon-DR).
    permute_rows : bool
        Send the rows in an order nobody keeps.
    perturb_basis : float
        Draw the basis from the rows plus this times uniform noise.

    Raises
    ------
    InputError
        If a number is out of its range, or noise is asked for by halves.
    """

    epsilon: float | None = None
    delta: float | None = None
    clip: float | None = None
    drop_below: float | None = None
    permute_rows: bool = False
    perturb_basis: float | None = None

    def __post_init__(self) -> None:
        self.record()

    def record(self) -> PrivacyRecord:
        """Return what the manifest says of it."""
        try:
            return PrivacyRecord(**asdict(self))
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


def non_readily_identifiable(options: PrivacyOptions) -> PrivacyOptions:
    """Return the options with what NRI-DC demands besides: permuted rows and a perturbed basis."""
    return replace(options, permute_rows=True, perturb_basis=options.perturb_basis or NRI_PERTURBATION)


@dataclass(frozen=True, repr=False)
class Treated:
    """A party's rows as they are projected, with the basis that projects them. All of it is secret."""

    rows: Matrix64
    """Those that leave, in the order in which they leave."""
    labels: Labels
    secret_basis: Matrix64
    axes: Matrix64
    singular_values: Matrix64
    """Of all rows, as the basis was drawn from them."""
    original: Matrix64
    """The same rows before the noise, in the same order."""


def with_noise(rows: Matrix64, options: PrivacyOptions) -> Matrix64:
    """Return the rows clipped and with noise, or as they are if none is asked for."""
    if options.sigma is None or options.clip is None:
        return rows
    normal = partial(gaussian, _secret("row-noise"))
    return add_noise(clip_rows(rows, options.clip), options.sigma, normal)


def treat(rows: Matrix64, labels: Labels, latent_dim: int, options: PrivacyOptions) -> Treated:
    """Do to the rows what the options say, and draw the basis.

    The noise comes first, and of the rows nothing else is looked at afterwards: the basis depends on them,
    and A_i tells of the basis, so noise on X_i F_i alone would not be what its epsilon says. This way
    whatever leaves is computed from rows that are private already.

    Raises
    ------
    InputError
        If no row is left.
    """
    noisy = with_noise(rows, options)
    strength = options.perturb_basis
    seen = noisy if strength is None else perturbed(noisy, strength, _secret("basis-noise"))
    singular_values, axes = principal_axes(seen)
    basis = draw_secret_basis(seen, latent_dim, _secret("secret-basis"), axes=axes)
    chosen = np.arange(len(rows))
    if options.drop_below is not None:
        chosen = chosen[hidden_share(noisy, basis) >= options.drop_below]
    if len(rows) and not len(chosen):
        error = InputError(f"no row keeps {options.drop_below:.1%} of itself hidden, so none would leave")
        error.hint = "lower --drop-below, or ask for terms with a smaller latent dimension"
        raise error
    if options.permute_rows:
        chosen = chosen[permutation(_secret("row-order"), len(chosen))]
    return Treated(noisy[chosen], labels[chosen], basis, axes, singular_values, rows[chosen])


def _secret(purpose: str) -> ByteSource:
    """A key stream that is kept nowhere."""
    return KeyStream.fresh(f"odc/v1/{purpose}").read
