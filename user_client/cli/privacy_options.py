"""The options of `odc prepare` and `odc contribute` that say what is done to the rows before they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, Final

import click

from user_client.sdk.privacy import PrivacyOptions

_HELP: Final = {
    "epsilon": "add Gaussian noise: every row becomes (epsilon, delta)-private; needs --delta and --clip",
    "delta": "delta of the noise, far below 1 / rows, e.g. 1e-6",
    "clip": "shorten rows to this length before the noise; a row of m features has at most length sqrt(m)",
    "drop_below": "leave out rows (and labels) of which the projection drops less than this share, e.g. 0.3",
    "permute_rows": "send the rows in a random order that is not stored",
    "hold_out": "keep back this share of the rows to evaluate on, 0 for none; by default that of the terms",
    "dither": "noise on the projected rows, in their own standard deviations; by default that of the terms",
    "perturb_basis": "draw the basis from the rows plus this times uniform noise, e.g. 0.05",
    "latent_dim": "send so many numbers of each row, where the terms have a least_latent_dim",
    "own_map": "map rows by random-features, kernel-pca or a FILE.onnx first, where the terms have own_maps",
}
_TYPES: Final = {"str | None": str, "int | None": int, "float | None": float}


def takes_privacy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the privacy options to a command, which gets them as its argument ``options``."""
    names = [field.name for field in fields(PrivacyOptions)]

    @wraps(command)
    def with_options(**given: Any) -> None:
        options = PrivacyOptions(**{name: given.pop(name) for name in names})
        command(**given, options=options)

    for field in reversed(fields(PrivacyOptions)):
        kind = {"is_flag": True} if field.type == "bool" else {"type": _TYPES[str(field.type)]}
        with_options = click.option(f"--{field.name.replace('_', '-')}", help=_HELP[field.name], **kind)(
            with_options
        )
    return with_options
