"""The options of `odc terms draft` that are about what institutions send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from protocol.errors import InputError
from user_client.sdk import DraftedTerms, with_sums

UplinkKind = Annotated[
    Literal["rows", "sums"],
    typer.Option(help="what institutions send: projected rows, or masked sums over all their rows"),
]
RandomFeatures = Annotated[
    int, typer.Option(help="under sums: so many random features of a row as well, for curved boundaries")
]
CohortOption = Annotated[
    bool,
    typer.Option(
        "--cohort",
        help="under sums: each institution gets the total, for means, correlations and exact intervals of"
        " coefficients; with it each also knows the sums of all others together",
    ),
]


def drafted_as_asked(
    drafted: DraftedTerms,
    table: Path | None,
    uplink: str,
    random_features: int,
    latent_dim: int | None,
    *,
    cohort: bool,
) -> DraftedTerms:
    """Make a draft one of sums, if asked for; raises `InputError` if an option does not go with it."""
    if uplink != "sums":
        for option, is_used in (("--random-features", bool(random_features)), ("--cohort", cohort)):
            if is_used:
                raise InputError(f"{option} goes with --uplink sums")
        return drafted
    if latent_dim is not None:
        raise InputError("--latent-dim goes with rows: all features are summed")
    return with_sums(drafted, table, random_features=random_features, cohort=cohort)
