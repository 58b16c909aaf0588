"""The privacy desk at a terminal: what `odc prepare` has found, and our policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from runtime.terminal import minute, privacy_in_words
from user_client.cli.options import AsJson, local_fit_in_words, open_session, show
from user_client.sdk import Attack, Information, Policy, Prepared, Signal


def policy(
    context: typer.Context,
    max_exact_rows: Annotated[
        float | None, typer.Option(help="largest share of rows that an attack may rebuild, e.g. 0.01")
    ] = None,
    max_found_columns: Annotated[
        int | None, typer.Option(help="largest number of columns that may be found without the basis")
    ] = None,
    min_hidden_bits: Annotated[
        float | None, typer.Option(help="fewest bits of a row that cannot leave, e.g. 8")
    ] = None,
    never: Annotated[
        list[str] | None, typer.Option(help="column that no terms may name; repeat for all of them")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="begin with a policy that limits nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or set what attacks on our own rows may find at most. Beyond it, `odc contribute` refuses."""
    with open_session(context) as session:
        before = Policy.of(session.home)
        given = {
            "max_exact_rows": max_exact_rows,
            "max_found_columns": max_found_columns,
            "min_hidden_bits": min_hidden_bits,
            "never": tuple(never) if never else None,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        chosen = (Policy() if clear or before is None else before).changed(**changes)
        if changes or clear:
            chosen.store(session.home)
    show(as_json, chosen.model_dump(mode="json"), lambda: _policy_text(chosen))


def _policy_text(policy: Policy) -> str:
    lines = []
    if policy.max_exact_rows is not None:
        lines.append(f"an attack may rebuild at most {policy.max_exact_rows:.1%} of the rows in every column")
    if policy.max_found_columns is not None:
        lines.append(f"at most {policy.max_found_columns} columns may be found without the basis")
    if policy.min_hidden_bits is not None:
        lines.append(f"at least {policy.min_hidden_bits:g} bits of a row must stay here")
    lines += [f"no terms may name the column {name}" for name in policy.never]
    return "\n".join(lines or ["there is no policy: nothing is limited"])


def signal_in_words(signal: Signal | None, least: float | None) -> str:
    """Return how much of a table's own score lies along its leading axes, and whether that is enough."""
    if signal is None:
        return (
            "these rows cannot tell how many dimensions their label needs: they are too few, or of one class,"
            " or say too little about it"
        )
    measure = "ROC-AUC" if signal.measure == "roc_auc" else "concordance"
    words = (
        f"your own score of these rows has a {measure} of {signal.auc:.1%}; as many leading axes as latent"
        f" dimensions hold {signal.kept:.2f} of it (R squared) and alone give {signal.projected_auc:.1%}"
    )
    if least is not None and signal.kept < least:
        words += f"\nthe terms ask for {least:g}: ask the lead for terms with a larger latent_dim"
    return words


def information_in_words(found: Information) -> str:
    """Return how much of a row can leave, for people."""
    if found.is_enough:
        return (
            f"a row holds {found.row_bits:.0f} bits and what leaves of it can carry {found.sent_bits:.0f}:"
            " who knows the secret basis, the analyst with any member, can in principle rebuild every value"
        )
    return f"what leaves of a row carries at most {found.sent_bits:.0f} of its {found.row_bits:.0f} bits"


def attacks_in_words(attacks: Sequence[Attack]) -> list[str]:
    """Return what the attacks on our own rows found, one line each."""
    lines = []
    if missing := [attack.name for attack in attacks if not attack.ran]:
        lines.append(
            f"not tried on our own rows: {', '.join(missing)}; it needs the extra [desk], and a table that is"
            " neither too small nor too wide"
        )
    for attack in attacks:
        if not attack.ran:
            continue
        found = []
        if attack.exact_rows is not None:
            found.append(
                f"{attack.exact_rows:.1%} of the rows rebuilt in every column, {attack.right_values or 0:.0%}"
                f" of all values (by guessing: {attack.guessed_rows or 0:.1%} and"
                f" {attack.guessed_values or 0:.0%})"
            )
        if attack.relations is not None:
            found.append(f"{attack.relations} integer relations between rows")
        if attack.finds == "columns":
            found.append(f"columns told for nearly all rows: {', '.join(attack.columns) or 'none'}")
            if attack.columns:
                found.append(f"named rightly: {', '.join(attack.named) or 'none'}")
        if attack.linked_rows is not None:
            found.append(f"{attack.linked_rows:.1%} of the rows it looked for were found")
        if not attack.is_complete:
            found.append("it had too little time for more")
        lines.append(f"{attack.attacker} could try {attack.name}: {'; '.join(found)}")
    return lines


def prepared_in_words(prepared: Prepared, refused: Sequence[str], picture: Path | None) -> str:
    """Return what would leave and its risk, for people."""
    if prepared.uplink == "sums":
        return _sums_in_words(prepared, refused)
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
    lines += _treatment(prepared) + _risk(prepared)
    if prepared.information:
        lines.append(information_in_words(prepared.information))
        lines += attacks_in_words(prepared.attacks)
    if prepared.rows:
        lines.append(signal_in_words(prepared.signal, prepared.least_signal))
    if 0 < prepared.rows < prepared.latent_dim:
        lines.append(
            f"there are fewer rows than the {prepared.latent_dim} latent dimensions: the directions without"
            " rows mean nothing"
        )
    if prepared.table_rows == 0:
        lines.append("there are no rows: this institution would receive the model without contributing to it")
    lines += _alone(prepared) + _sent_before(prepared)
    if picture is not None:
        lines.append(
            f"a few rows, what leaves of them, what collusion could rebuild: {picture}; do not share it"
        )
    lines += [f"not allowed, by our policy or by the terms: {phrase}" for phrase in refused]
    if refused and prepared.would_pass:
        lines.append(f"  it would allow {prepared.would_pass}")
    lines.append("nothing was sent" if refused else "nothing was sent\nnext: odc contribute")
    return "\n".join(lines)


def _sums_in_words(prepared: Prepared, refused: Sequence[str]) -> str:
    """Return what sums would leave, for people."""
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
    lines += _alone(prepared) + _sent_before(prepared)
    lines += [f"not allowed, by our policy or by the terms: {phrase}" for phrase in refused]
    lines.append("nothing was sent" if refused else "nothing was sent\nnext: odc contribute")
    return "\n".join(lines)


def _sent_before(prepared: Prepared) -> list[str]:
    """Name the earlier rounds that have the same rows: two uplinks of a row are easier to attack than one."""
    lines = []
    for overlap in prepared.overlaps:
        release = overlap.release
        lines.append(
            f"{overlap.rows} of these rows were sent before: {minute(release.received_at)}, in"
            f" {release.title} ({release.collaboration_id}); two uplinks tell more than one, and epsilons"
            " add up"
        )
    return lines


def _alone(prepared: Prepared) -> list[str]:
    if (fit := prepared.alone) is None:
        return []
    lines = [f"to compare with later, a {local_fit_in_words(fit)} is ready"]
    if fit.rows < prepared.rows:
        lines.append("  it is fitted on no more rows than that, which were chosen at random")
    return lines


def _treatment(prepared: Prepared) -> list[str]:
    lines = [f"the manifest states: {words}" for words in privacy_in_words(prepared.privacy)]
    if prepared.noise_sigma is not None:
        lines.append(
            f"the noise on each encoded feature has a standard deviation of {prepared.noise_sigma:.3g}"
        )
    if prepared.rows < prepared.table_rows:
        lines.append(f"{prepared.table_rows - prepared.rows} of {prepared.table_rows} rows stay here")
    if prepared.held_out_rows:
        lines.append(f"  {prepared.held_out_rows} of them are kept back, for `odc evaluate` after the round")
    return lines


def _risk(prepared: Prepared) -> list[str]:
    if (hidden := prepared.hidden_share) is None:
        return []
    row = "row" if prepared.collusion_error is None else "noisy row"
    lines = [
        f"along the axes that are projected away (epsilon-DR) lies of a {row}:"
        f" {hidden.minimum:.1%} or more, median {hidden.median:.1%}"
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
        shown = " ".join(f"{value:.3g}" for value in values[:6])
        lines.append(
            f"singular values {shown}{' ...' if len(values) > 6 else ''};"
            f" 50 %, 90 % and 99 % of their squares are in the first {first[0]}, {first[1]} and {first[2]}"
        )
    return lines


def _at_most(latent_dim: float) -> str:
    return f"{latent_dim:g} or less" if latent_dim else "none"


COMMANDS: Final[tuple[Callable[..., None], ...]] = (policy,)
"""The commands of this module that stand directly behind `odc`."""
