"""Drafted terms of rows, made into terms of sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from protocol.codec import explain
from protocol.errors import InputError
from protocol.limits import MAX_RANDOM_FEATURES, MAX_SUMS_PARTIES
from protocol.sums import FEWEST_PARTIES, SumsTerms, check_parties
from protocol.sums_noise import SumsNoise
from protocol.table_schema import Schema
from user_client.sdk.agreement import BY_CLASS_MODEL, DITHER, MODEL_DELTA
from user_client.sdk.drafting import DraftedTerms
from user_client.sdk.drafting_curves import ON_MODEL
from user_client.sdk.drafting_dither import ON_DITHER
from user_client.sdk.sums_limits import can_be_summed_by_class
from user_client.secret.expansion import Matrix64
from user_client.tables import encode_rows, table_from, with_labels

_OF_ROWS: Final = ("latent_dim", "rep_dtype", "dither", "least_signal", "alignment", "model")
"""What a draft says of rows, and terms of sums do not have or have in their own way."""
_WITHOUT_SUMS: Final = ("downlink", "late_consumers", "model_groups", "model_privacy")
_SUMMED: Final = ("classes", "number")
"""Tasks that sums serve."""
_BY_CLASS: Final = {"kind": BY_CLASS_MODEL}
_FITTING: Final[dict[str, list[Any]]] = {
    "rep_dtype": ["i1"],
    "dither": [DITHER],
    "alignment": [{"method": "isotropic"}],
    "model": [{"kind": "averaged"}, {"kind": "ridge"}, _BY_CLASS],
}
"""Of these a draft always has one; another was asked for, and would be lost."""
_NO_COHORT: Final = (
    "sums: no institution gets the total under this draft. With cohort = true (--cohort) each gets it: means,"
    " correlations, and intervals of coefficients; but then each also knows the sums of all others together"
)
_LINEAR: Final = (
    f"sums: the boundary between the classes is linear under this draft. With --model {BY_CLASS_MODEL}"
    " the rows of each class are summed by themselves, for one that bends; each institution then needs"
    " min_rows of every class, or none, and reads the means and covariances of each class from the model"
)
_CURVED: Final = (
    "sums: bands of all columns of numbers together predict the label better than a linear model of them;"
    " draft again with --random-features 500, whose boundaries bend, or write bands into columns of their own"
)
_MIN_ROWS: Final[int] = SumsTerms.model_fields["min_rows"].default
_UNCLIPPED: Final = 0.9
"""Share of the rows that a drafted clip leaves as they are."""
_PAIRS: Final = 2000
"""Pairs of rows whose distances the width of a kernel is drafted from."""


def with_sums(
    drafted: DraftedTerms,
    data: Any,
    *,
    random_features: int = 0,
    cohort: bool = False,
    epsilon: float | None = None,
) -> DraftedTerms:
    """Return the terms of a draft for sums in the place of rows.

    Parameters
    ----------
    drafted : DraftedTerms
        For rows, of classes or numbers. Its model may be a `quadratic-discriminant`: then the rows of each
        class are summed by themselves. Any other default becomes `ridge`.
    data : path, pyarrow.Table or data frame, optional
        The table it was drafted from; needed for random features and for noise.
    random_features : int
        How many random Fourier features of a row are summed beside the row itself. The width of their kernel
        is the median distance between rows of the table.
    cohort : bool
        Whether each institution gets the total.
    epsilon : float, optional
        Ask every institution for a share of noise, so that the total is (epsilon, delta)-differentially
        private with a delta of `MODEL_DELTA`, even if fewer than half of the institutions collude. Rows are
        clipped to a length that nine in ten rows of the table do not reach.

    Raises
    ------
    InputError
        If the draft has what sums do not have, or random features or noise are asked for without a table.
    """
    asked: list[str] = [name for name in _WITHOUT_SUMS if name in drafted.content]
    asked += [name for name, fitting in _FITTING.items() if drafted.content[name] not in fitting]
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    if (task := schema.label_column.task) not in _SUMMED:
        raise InputError(f"sums serve classes and numbers: {task} needs rows")
    if asked:
        raise InputError(f"{asked[0]} does not go with sums: leave it to the draft")
    if not 0 <= random_features <= MAX_RANDOM_FEATURES:
        raise InputError(f"random features: 0 to {MAX_RANDOM_FEATURES}, got {random_features}")
    features = schema.width + random_features
    sums = _what_is_summed(drafted, schema, data, random_features, cohort=cohort, epsilon=epsilon)
    content = {name: value for name, value in drafted.content.items() if name not in _OF_ROWS}
    is_by_class = drafted.content["model"] == _BY_CLASS
    if is_by_class and (cohort or epsilon is not None):
        raise InputError(f"a {BY_CLASS_MODEL} goes with neither cohort nor noise: leave them out")
    model = _BY_CLASS if is_by_class else {"kind": "ridge"}
    content |= {"latent_dim": features, "model": model, "sums": sums}
    of_rows = ("latent_dim ", ON_MODEL, ON_DITHER)
    remarks = [one for one in drafted.remarks if not one.startswith(of_rows)]
    if not random_features and any(one.startswith(ON_MODEL) for one in drafted.remarks):
        remarks.append(_CURVED)
    if is_by_class and not _fits_by_class(drafted):
        remarks.append(
            f"sums: this table cannot take part under this draft, because fewer than {_MIN_ROWS} rows of a"
            " class would leave. Without --model all classes are summed together; a smaller min_rows in the"
            " file tells more about each row"
        )
    if not cohort and epsilon is None and not is_by_class:
        remarks.append(_NO_COHORT)
        if task == "classes" and not random_features and _fits_by_class(drafted):
            remarks.append(_LINEAR)
    return replace(
        drafted,
        content=content,
        latent_dim=features,
        signal=None,
        fewer=(),
        information=None,
        remarks=remarks,
    )


def naming_sums(drafted: DraftedTerms) -> DraftedTerms:
    """Return a draft of rows, with a remark if sums could take their place (ADR 0021).

    Raises `InputError` if its model needs sums.
    """
    if drafted.content["model"] == _BY_CLASS:
        raise InputError(f"the model {BY_CLASS_MODEL} goes with sums (--uplink sums): take another, or sums")
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    task, parties = schema.label_column.task, drafted.content["parties"]
    if task not in _SUMMED or not FEWEST_PARTIES <= len(parties) <= MAX_SUMS_PARTIES:
        return drafted
    if any(name in drafted.content for name in _WITHOUT_SUMS):
        return drafted
    is_by_class = task == "classes" and _fits_by_class(drafted)
    options = "--uplink sums" + (f" --model {BY_CLASS_MODEL}" if is_by_class else "")
    remark = (
        f"rows: each row leaves its institution, projected. {options} drafts terms under which none leaves,"
        " in any form; every institution then has to send before there is a model (docs/sums.md)"
    )
    return replace(drafted, remarks=[*drafted.remarks, remark])


def _fits_by_class(drafted: DraftedTerms) -> bool:
    """Return whether the table of a draft can take part if its classes are summed by themselves."""
    return can_be_summed_by_class(drafted.class_rows, drafted.content["hold_out"], _MIN_ROWS)


def _what_is_summed(
    drafted: DraftedTerms,
    schema: Schema,
    data: Any,
    random_features: int,
    *,
    cohort: bool,
    epsilon: float | None,
) -> dict[str, Any]:
    """Return the terms of sums, of which some are drafted from the table."""
    parties = drafted.content["parties"]
    try:
        check_parties(parties)
    except ValueError as error:
        raise InputError(str(error)) from None
    if cohort and epsilon is not None:
        raise InputError("cohort does not go with noise: leave cohort or model_epsilon out")
    sums: dict[str, Any] = {"random_features": random_features}
    if cohort:
        sums["cohort"] = True
    if not random_features and epsilon is None:
        return sums
    if data is None:
        raise InputError("random features and noise need a table: kernel width and clip are drafted from it")
    rows = encode_rows(with_labels(table_from(data), schema), schema)
    if random_features:
        sums["kernel_width"] = _median_distance(rows)
    if epsilon is not None:
        sums["noise"] = _noise(epsilon, rows, random_features, len(parties))
    return sums


def _median_distance(rows: Matrix64) -> float:
    """Return the median distance of pairs of rows, to three digits, so that it tells little of any."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(len(rows), size=(2, _PAIRS)) if len(rows) else np.zeros((2, 0), np.int64)
    distances = np.linalg.norm(rows[one] - rows[other], axis=1)[one != other]
    median = float(np.median(distances)) if len(distances) else 0.0
    if median <= 0:
        raise InputError("random features need a table with rows that differ")
    return float(f"{median:.3g}")


def _noise(epsilon: float, rows: Matrix64, random_features: int, parties: int) -> dict[str, Any]:
    """Return the terms of noise; random features add 1 to the square of a row's length, more or less."""
    lengths = np.sqrt(np.square(rows).sum(axis=1) + (1 if random_features else 0))
    clip = float(np.quantile(lengths, _UNCLIPPED)) if len(lengths) else 0.0
    if clip <= 0:
        raise InputError("noise needs a table with rows: the length to clip at is drafted from it")
    drafted = {"epsilon": epsilon, "delta": MODEL_DELTA, "clip": float(f"{clip:.3g}")}
    try:
        noise = SumsNoise.model_validate({**drafted, "colluding": (parties - 1) // 2})
    except ValidationError as error:
        raise InputError(f"model_epsilon: {explain(error)}") from None
    return noise.model_dump()
