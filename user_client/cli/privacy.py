"""The privacy desk at the terminal: its options, the same for every command, and what it says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from protocol.errors import InputError
from protocol.messages import PrivacyRecord
from user_client.sdk import Prepared, PrivacyOptions

_HELP = {
    "epsilon": "add Gaussian noise: every row becomes (epsilon, delta)-private; with --delta and --clip",
    "delta": "of the noise, far below 1 / rows, as 1e-6",
    "clip": "shorten rows to this length before the noise; a row of m features is never longer than sqrt(m)",
    "drop_below": "leave out rows that keep less than this share hidden (epsilon-DR), labels too, as 0.3",
    "permute_rows": "send the rows in an order nobody keeps",
    "perturb_basis": "draw the basis from the rows plus this times uniform noise, as 0.05",
}


def takes_privacy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the privacy options of the command line, as its argument ``options``."""
    names = [field.name for field in fields(PrivacyOptions)]

    @wraps(command)
    def with_options(**given: Any) -> None:
        options = PrivacyOptions(**{name: given.pop(name) for name in names})
        command(**given, options=options)

    own = [
        parameter
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "options"
    ]
    added = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[
                bool if field.default is False else float | None,
                typer.Option(f"--{field.name.replace('_', '-')}", help=_HELP[field.name]),
            ],
        )
        for field in fields(PrivacyOptions)
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + added
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def refuse_to_forget_options(prepared: Prepared | None, options: PrivacyOptions) -> None:
    """Raise `InputError` if what is prepared with privacy options would be sent without any."""
    if options == PrivacyOptions() and prepared is not None and prepared.options != asdict(options):
        error = InputError("what is prepared has privacy options, and the command line names none")
        error.hint = "send what is prepared: `odc contribute`; or name the options again; nothing was sent"
        raise error


def picture_shape(picture: Path | None, shape: str | None, table: Path) -> tuple[int, int]:
    """Return height and width of a row as a picture, if one is asked for; raises `InputError`."""
    if picture is not None and picture.exists() and table.exists() and picture.samefile(table):
        raise InputError(f"{picture} is the table itself; name another file with --picture")
    if (picture is None) != (shape is None):
        raise InputError("--picture FILE and --shape HEIGHTxWIDTH go together")
    found = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})", shape or "1x1")
    if found is None:
        raise InputError("--shape is HEIGHTxWIDTH, as 28x28")
    return int(found[1]), int(found[2])


def prepared_text(prepared: Prepared, picture: Path | None = None) -> str:
    """Return what would leave and what it would risk, for people."""
    lines = [
        f"{prepared.rows} rows of {prepared.features} encoded features become"
        f" {prepared.latent_dim} numbers each; this would leave, once:"
    ]
    for array in prepared.arrays:
        shape = " x ".join(map(str, array["shape"]))
        lines.append(f"  {array['name']:<12} {shape:>14} {array['dtype']}  {array['bytes']:>12,} bytes")
    lines.append(
        f"  in all {prepared.payload_bytes:,} bytes; the paper's formula (3) {prepared.formula_bytes:,.0f}"
    )
    lines += _treatment(prepared) + _risk(prepared)
    if prepared.table_rows == 0:
        lines.append("there are no rows: this institution would receive the model without having contributed")
    if picture is not None:
        lines.append(f"a few rows, what leaves of them, what collusion brings back: {picture}; keep it here")
    lines.append("nothing was sent\nnext: odc contribute")
    return "\n".join(lines)


def _treatment(prepared: Prepared) -> list[str]:
    lines = [f"the manifest says: {words}" for words in PrivacyRecord(**prepared.privacy).in_words()]
    if prepared.noise_sigma is not None:
        lines.append(f"the noise has a deviation of {prepared.noise_sigma:.3g} on each encoded feature")
    if prepared.rows < prepared.table_rows:
        lines.append(f"{prepared.table_rows - prepared.rows} of {prepared.table_rows} rows stay here")
    return lines


def _risk(prepared: Prepared) -> list[str]:
    if prepared.hidden_share is None:
        return []
    row = "row" if prepared.collusion_error is None else "noisy row"
    lines = [
        f"should analyst and a member collude, a {row} keeps hidden (epsilon-DR):"
        f" at least {prepared.hidden_share['minimum']:.1%}, median {prepared.hidden_share['median']:.1%}"
    ]
    if (error := prepared.collusion_error) is not None:
        lines.append(
            f"  what they rebuild of the row without noise is off by at least {error['minimum']:.1%},"
            f" median {error['median']:.1%}"
        )
    if (found := prepared.threshold) is not None:
        lines += [
            f"  {found['rows_below']} rows keep less than {found['threshold']:.3g} hidden;"
            " a smaller latent dimension hides more:",
            f"  {_at_most(found['largest_latent_dim'])} would do for all rows,"
            f" {_at_most(found['largest_latent_dim_for_99_percent'])} for 99 % of them",
        ]
    values = np.array(prepared.singular_values)
    if energy := float(np.square(values).sum()):
        shares = np.cumsum(np.square(values)) / energy
        first = [str(1 + int((shares < share).sum())) for share in (0.5, 0.9, 0.99)]
        shown = " ".join(f"{value:.3g}" for value in values[:6])
        lines.append(
            f"singular values {shown}{' ...' if len(values) > 6 else ''};"
            f" 50 %, 90 % and 99 % of their squares are in the first {first[0]}, {first[1]} and {first[2]}"
        )
    return lines


def _at_most(latent_dim: float) -> str:
    return f"{latent_dim:g} or less" if latent_dim else "none"
