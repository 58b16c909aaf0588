"""In words: what would leave with an uplink, and the risk of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from runtime.terminal import privacy_in_words
from user_client.sdk.prepared import Prepared
from user_client.words.models import local_fit_in_words, signal_in_words
from user_client.words.risk import IF_TOO_MUCH, NOTHING_FOUND, attacks_in_words, dangers, information_in_words


def summary_in_words(
    prepared: Prepared,
    refused: Sequence[str] = (),
    picture: Path | None = None,
    *,
    is_short: bool = False,
) -> str:
    """Return what would leave, and then what to know before it does, for people.

    The warnings come last, where a question that follows finds its reader.

    Parameters
    ----------
    is_short : bool
        For who is asked right below: without the figures behind the warnings.
    """
    lines = leaving_in_words(prepared, is_short=is_short)
    if is_short and prepared.uplink == "rows":
        lines.append("`odc prepare TABLE` shows all that was measured of it")
    if picture is not None:
        lines.append(
            f"a few rows, what leaves of them, what collusion could rebuild: {picture}; do not share it"
        )
    found = dangers(prepared)
    lines += [f"warning: {line}" for line in found]
    if prepared.attacks:
        lines.append(IF_TOO_MUCH if found else NOTHING_FOUND)
    lines += [f"not allowed, by our policy or by the terms: {phrase}" for phrase in refused]
    if refused and prepared.would_pass:
        lines.append(f"  it would allow {prepared.would_pass}")
    return "\n".join(lines)


def leaving_in_words(prepared: Prepared, *, is_short: bool = False) -> list[str]:
    """Return what would leave and what was measured of it: lines, an indented one part of that above.

    Unless ``is_short``, with the figures of the projection and of the attacks.
    """
    if prepared.uplink == "sums":
        return _sums_in_words(prepared) + _repeated_rows(prepared)
    lines = [
        f"{prepared.rows} rows of {prepared.features} encoded features become"
        f" {prepared.latent_dim} numbers each; this would leave, once:"
    ]
    for array in prepared.arrays:
        shape = " x ".join(map(str, array.shape))
        lines.append(f"  {array.name:<12} {shape:>14} {array.dtype}  {array.payload_bytes:>12,} bytes")
    lines.append(
        f"  in all {prepared.payload_bytes:,} bytes; the paper's formula (3) {prepared.formula_bytes:,.0f}"
    )
    lines += _treatment(prepared)
    if not is_short:
        lines += _risk(prepared)
    if prepared.information and not prepared.information.is_enough:  # else it is a danger
        lines.append(information_in_words(prepared.information))
    if prepared.rows and prepared.has_labels:
        may_choose = prepared.latent_dim < (prepared.most_latent_dim or 0)
        lines.append(signal_in_words(prepared.signal, prepared.least_signal, may_choose=may_choose))
    if 0 < prepared.rows < prepared.latent_dim:
        lines.append(
            f"there are fewer rows than the {prepared.latent_dim} latent dimensions: the directions without"
            " rows mean nothing"
        )
    if is_short:
        return lines + _repeated_rows(prepared)
    return lines + _alone(prepared) + _repeated_rows(prepared) + attacks_in_words(prepared.attacks)


def _sums_in_words(prepared: Prepared) -> list[str]:
    """Return what sums would leave, as lines."""
    (array,) = prepared.arrays
    kept_here = prepared.table_rows - prepared.rows
    lines = [
        f"sums over {prepared.rows} rows would leave, once, and no row: {array.shape[0]:,} masked numbers,"
        f" {prepared.payload_bytes:,} bytes; they would be as many for any number of rows",
        f"each is the sum of the product of two of a row's numbers: 1, its {prepared.latent_dim} features in"
        " secret coordinates, and its label",
        "the masks cancel in the total over all institutions and in no other sum: that is what the analyst"
        " learns",
    ]
    if prepared.sums_noise is not None:
        lines.append(
            "under the mask lies our share of the noise, with a standard deviation of"
            f" {prepared.sums_noise.deviation:.3g} for rows of length 1; {prepared.sums_noise.clipped_rows}"
            f" of {prepared.rows} rows were longer than the terms' clip, and were scaled down to it"
        )
    if kept_here:
        lines.append(f"{kept_here} of {prepared.table_rows} rows are kept back, for `odc evaluate`")
    return lines + _alone(prepared)


def _alone(prepared: Prepared) -> list[str]:
    if (fit := prepared.alone) is None:
        return []
    lines = [f"to compare with later, a {local_fit_in_words(fit)} is ready"]
    if fit.rows < prepared.rows:
        lines.append("  it is fitted on no more rows than that, which were chosen at random")
    return lines


def _repeated_rows(prepared: Prepared) -> list[str]:
    if not prepared.repeated_rows:
        return []
    rows = f"{prepared.repeated_rows} of {prepared.table_rows} rows"
    equal = "equals" if prepared.repeated_rows == 1 else "equal"
    return [
        f"{rows} {equal} an earlier row in every column: what was written twice counts twice, and raises the"
        " score on rows that are kept back; take it out, unless these are different people"
    ]


def _treatment(prepared: Prepared) -> list[str]:
    lines = [f"stated to the analyst: {words}" for words in privacy_in_words(prepared.privacy)]
    if prepared.noise_sigma is not None:
        lines.append(
            f"the noise on each encoded feature has a standard deviation of {prepared.noise_sigma:.3g}"
        )
    if prepared.rows < prepared.table_rows:
        lines.append(f"{prepared.table_rows - prepared.rows} of {prepared.table_rows} rows stay here")
    if prepared.held_out_rows:
        lines.append(f"  {prepared.held_out_rows} of them are kept back, for `odc evaluate` after the round")
    return lines


def _risk_of_own_map(prepared: Prepared) -> list[str]:
    if prepared.options.own_map is None or not prepared.rows:
        return []
    lines = [
        f"a map of our own comes before the basis ({prepared.options.own_map}): what a linear one drops of a"
        " row, and how many bits can leave, are not measured, and attacks that need a basis are not tried"
    ]
    if (error := prepared.collusion_error) is not None:
        lines.append(
            "  if the analyst and a member collude, they can learn from the anchor's rows to rebuild others:"
            f" what we could learn differs from the row by {error.minimum:.1%} or more, median"
            f" {error.median:.1%}; others may learn more"
        )
    return lines


def _risk(prepared: Prepared) -> list[str]:
    if (hidden := prepared.hidden_share) is None:
        return _risk_of_own_map(prepared)
    row = "row" if prepared.collusion_error is None else "noisy row"
    lines = [
        f"of the length of a {row} the projection drops at least {hidden.minimum:.1%}, median"
        f" {hidden.median:.1%} (epsilon-DR)"
    ]
    if (error := prepared.collusion_error) is not None:
        lines.append(
            "  if the analyst and a member collude, what the basis alone gives them differs from the row"
            f" by {error.minimum:.1%} or more, median {error.median:.1%}"
        )
    if (found := prepared.threshold) is not None:
        lines += [
            f"  of {found.rows_below} rows it is less than {found.threshold:.3g};"
            f" a latent dimension of {_at_most(found.largest_latent_dim)} would do for all rows,"
            f" {_at_most(found.largest_latent_dim_for_99_percent)} for 99 % of them",
        ]
    values = np.array(prepared.singular_values)
    if energy := float(np.square(values).sum()):
        shares = np.cumsum(np.square(values)) / energy
        first = [str(1 + int((shares < share).sum())) for share in (0.5, 0.9, 0.99)]
        lines.append(
            f"of {len(values)} directions, the first {first[0]} carry half of the rows' squared length,"
            f" {first[1]} carry 90 % and {first[2]} carry 99 %"
        )
    return lines


def _at_most(latent_dim: float) -> str:
    return f"{latent_dim:g} or less" if latent_dim else "none"
