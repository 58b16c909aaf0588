"""What the use cases have found, in words: the same at a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from protocol.consent import plain_words
from protocol.sums import is_by_class
from protocol.table_schema import LevelsColumn
from protocol.terms import Terms
from protocol.texts import visible
from runtime.terminal import minute, privacy_in_words
from user_client.privacy.information import Information
from user_client.privacy.isolation import Isolated
from user_client.sdk.desk import Attack
from user_client.sdk.hold_out import LocalFit
from user_client.sdk.lower_dimensions import Kept
from user_client.sdk.prepared import Prepared
from user_client.sdk.session import SHORT_ID
from user_client.sdk.shared_rows import KINDS
from user_client.sdk.terms import CheckedTable
from user_client.secret.signal import Signal
from user_client.tables import ColumnProfile, Misfit, strangeness

OURS_ALONE: Final = (
    "every institution gets the total (cohort): of what no other institution has, be it a level, a class, the"
    " 1 of a column of 0 and 1 or an empty field, it is our own sums of these rows, as they are: every member"
    " would read how many they are, and the mean of every column over them; ask the others what they have"
)
"""What an institution cannot know from its own table."""


def on_screen(terms: Terms) -> str:
    """Return the text that is signed, with what nobody sees spelt out, and a purpose of several lines marked.

    Terms that were published by this version have neither.
    """
    text = plain_words(terms)
    if len(terms.purpose.splitlines()) > 1:
        marked = "\n".join(f"| {line}" for line in terms.purpose.split("\n"))
        said = f"The purpose, as whoever published the terms wrote it:\n{marked}"
        text = text.replace(terms.purpose, said, 1)
    return visible(text)


def differences_in_words(terms: Terms, differs: Sequence[str] | None) -> str:
    """Return what is different from the terms that these replace, as lines; nothing if they replace none."""
    if terms.replaces is None:
        return ""
    if differs is None:
        return f"We were no party of {terms.replaces[:SHORT_ID]}, which these terms replace.\n\n"
    lines = [f"  {visible(line)}" for line in differs] or ["  nothing"]
    return "\n".join(
        [f"Different from {terms.replaces[:SHORT_ID]}, which these terms replace:", *lines, "\n"]
    )


def misfits_in_words(found: Sequence[Misfit]) -> str:
    """Return what of a table does not fit the terms, and what to do about each."""
    return "\n".join(f"{misfit.detail}\n  fix: {misfit.fix}" for misfit in found)


def checked_in_words(terms: Terms, found: CheckedTable, *, is_short: bool = False) -> str:
    """Return how a table goes with terms, for people: what does not fit, or warnings first and then the rest.

    Parameters
    ----------
    is_short : bool
        Leave out of the counts the columns of which nothing is empty, clipped or a code.
    """
    if found.misfits:
        return misfits_in_words(found.misfits)
    warnings, rest = risk_in_words(terms, found)
    fits = f"the table fits: {found.rows:,} rows of {found.features:,} encoded features"
    counts = _counts_in_words(found.profile, is_short=is_short)
    return "\n".join([*(f"warning: {line}" for line in warnings), fits, *rest, *counts])


def risk_in_words(terms: Terms, found: CheckedTable) -> tuple[list[str], list[str]]:
    """Return what a person should look at in a table that fits, and what else terms find in its rows."""
    warnings = [*_coded_in_words(found.profile), *_strange_in_words(found.profile, terms)]
    rest: list[str] = []
    if found.isolated:
        warnings.append(isolated_in_words(found.isolated))
    warnings += [
        f"column '{name}' {told.in_words()}; ask the lead for terms in which it is a category, or in which"
        " another column has its band as a text"
        for name, told in found.banded.items()
    ]
    warnings += found.remarks
    rest += found.unused.notes()
    if found.rows and is_by_class(terms):
        warnings.append(
            "the total of a class that no other institution has is our own sums of it, as they are: every"
            " member would read them, and the analyst with one"
        )
    if found.rows and terms.sums is not None and terms.sums.cohort:
        warnings += _laid_open_in_words(terms, terms.sums.min_rows, found.profile)
    if found.rows and terms.sums is None and found.has_labels:  # of sums nothing is projected away
        least, signal = terms.least_signal, found.signal
        is_lost = least is not None and signal is not None and signal.kept < least
        (warnings if is_lost else rest).append(signal_in_words(signal, least, has_curves=bool(found.banded)))
        rest += fewer_in_words(found.to_choose_from)
    if found.information:
        rest.append(information_in_words(found.information))
    if found.rows and terms.own_maps:
        rest.append(
            f"the terms allow maps of our own as well ({', '.join(terms.own_maps)}): what is said here is of"
            " a linear one, and `odc prepare TABLE --own-map KIND` shows what is known of another"
        )
    return warnings, rest


def _laid_open_in_words(terms: Terms, min_rows: int, profile: Sequence[ColumnProfile]) -> Iterator[str]:
    """Yield what the total tells of our own rows where every institution gets it, level by level."""
    yield OURS_ALONE
    drafted = {column.name: column for column in terms.table_schema.columns}
    for column in profile:
        told = drafted[column.name]
        shares = dict(zip(told.levels, told.shares, strict=True)) if isinstance(told, LevelsColumn) else {}
        for level, count in column.level_rows.items():
            has = (
                f"column '{column.name}': of our rows, {count:,} {'has' if count == 1 else 'have'} the level"
            )
            if count and shares.get(level) == 0:
                yield (
                    f"{has} {level}, and the table that the terms were drafted from had none (its share is"
                    " 0): if no other institution has it either, every member reads the sums of these rows"
                )
            elif 0 < count < min_rows:
                yield (
                    f"{has} {level}, fewer than the {min_rows} of min_rows: if no other institution has it,"
                    " every member reads the sums of so few"
                )


def _coded_in_words(profile: Sequence[ColumnProfile]) -> list[str]:
    """Return one sentence for each number that may mean "not known", with the line of the terms for it."""
    return [
        f"column '{column.name}': {' and '.join(code.texts)} is in {code.rows:,} rows, apart from"
        " all others, and is taken as it is; if it means that the value is not known, ask the lead for"
        f" terms with {column.line}, or empty these fields"
        for column in profile
        for code in column.codes
    ]


def _strange_in_words(profile: Sequence[ColumnProfile], terms: Terms) -> list[str]:
    columns = {column.name: column for column in terms.table_schema.columns}
    found = [strangeness(one, columns[one.name]) for one in profile]
    return [words for words in found if words is not None]


def _counts_in_words(profile: Sequence[ColumnProfile], *, is_short: bool) -> list[str]:
    """Return a table of what the terms find in each column: counts, and no value."""
    shown = [one for one in profile if not is_short or one.empty or one.clipped or one.other or one.coded]
    width = max([len(column.name) for column in shown] + [6])
    names = ("empty", "imputed", "clipped", "other", "coded", "distinct")
    lines = [f"  {'column':<{width}} " + " ".join(f"{name:>9}" for name in names)] if shown else []
    for column in shown:
        counts = " ".join(f"{getattr(column, name):>9,}" for name in names)
        lines.append(f"  {column.name:<{width}} {counts}")
    if rest := len(profile) - len(shown):
        lines.append(
            f"  in {rest:,} of {len(profile):,} columns nothing is empty, clipped, another level or a code"
        )
    return lines


def signal_in_words(
    signal: Signal | None, least: float | None, *, has_curves: bool = False, may_choose: bool = False
) -> str:
    """Return how much of a table's own score lies along its leading axes, and whether that is enough.

    An institution that ``may_choose`` could send more numbers of each row.
    """
    if signal is None and has_curves:
        return (
            "along straight lines these rows say nothing about their label, but along curves, as said above"
        )
    if signal is None:
        return (
            "these rows cannot tell how many dimensions their label needs: they are too few, or of one class,"
            " or say too little about it"
        )
    measure = "ROC-AUC" if signal.measure == "roc_auc" else "concordance"
    several = "s" if signal.curves > 1 else ""
    curved = f", which curves along {signal.curves} direction{several}," if signal.curves else ""
    words = (
        f"a model of your own rows alone{curved} has a {measure} of {signal.auc:.1%}; as many leading axes of"
        f" the rows as latent dimensions keep {signal.kept:.2f} of its score (R squared), and by themselves"
        f" give {signal.projected_auc:.1%}"
    )
    if least is not None and signal.kept < least:
        words += f"\nthe terms ask for {least:g}: " + (
            "send more numbers of each row, with --latent-dim"
            if may_choose
            else "ask the lead for terms with a larger latent_dim"
        )
    return words


def fewer_in_words(found: Sequence[Kept]) -> list[str]:
    """Return the lines of a table: what so many latent dimensions keep of a table's own score."""
    if not found:
        return []
    measure = "ROC-AUC" if found[0].measure == "roc_auc" else "concordance"
    return [
        f"{'latent_dim':>12} {'kept (R squared)':>18} {measure + ' along them':>22}",
        *(f"{one.latent_dim:>12} {one.kept:>18.2f} {one.score:>22.1%}" for one in found),
    ]


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
            f"not tried on our own rows: {', '.join(missing)}: the extra [desk] is not installed, the"
            " table is too small or too wide for it, or it needs a linear map"
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


def isolated_in_words(found: Isolated) -> str:
    """Return what the leading axis tells of a column, for people: a warning."""
    return (
        f"under these terms the column {found.column} has {found.share:.0%} of the variance, and"
        f" along their first axis the rows are that column (correlation {found.correlation:.4f}): the analyst"
        " can read it off without the secret basis, whatever share of a row is projected away; ask the lead"
        " for ranges that fit"
    )


def local_fit_in_words(fit: LocalFit) -> str:
    """Return how the model of our own rows alone was fitted, for people."""
    words = f"model of the kind {fit.kind}, fitted on {fit.rows:,} of our own rows"
    if fit.kind != fit.terms_kind:
        words += (
            f" (the terms have one of the kind {fit.terms_kind}, of sums; from our own rows a model is fitted"
            " that needs no sums)"
            if fit.terms_kind in KINDS
            else f" (the terms have one of the kind {fit.terms_kind}, which is not fitted here)"
        )
    return words


def trained_in_words(kind: str | None) -> str:
    """Return that a model of our own answers instead of the one that came, for people."""
    own = "a model of our own" if kind is None else f"our own model of the kind {kind}"
    return (
        f"{own} answers, trained here on the rows of all institutions (odc train), and not the model that all"
        " have: `odc train --remove` lets that one answer again"
    )


def summary_in_words(prepared: Prepared, refused: Sequence[str] = (), picture: Path | None = None) -> str:
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
    if prepared.isolated:
        lines.append(f"warning: {isolated_in_words(prepared.isolated)}")
    if prepared.rows and prepared.has_labels:
        may_choose = prepared.latent_dim < (prepared.most_latent_dim or 0)
        lines.append(signal_in_words(prepared.signal, prepared.least_signal, may_choose=may_choose))
    if 0 < prepared.rows < prepared.latent_dim:
        lines.append(
            f"there are fewer rows than the {prepared.latent_dim} latent dimensions: the directions without"
            " rows mean nothing"
        )
    if prepared.table_rows == 0:
        lines.append(
            "there are no rows: this institution would receive the model without contributing to it, and is a"
            " consumer in this round for good"
        )
    lines += _alone(prepared) + _sent_before(prepared)
    if picture is not None:
        lines.append(
            f"a few rows, what leaves of them, what collusion could rebuild: {picture}; do not share it"
        )
    lines += [f"not allowed, by our policy or by the terms: {phrase}" for phrase in refused]
    if refused and prepared.would_pass:
        lines.append(f"  it would allow {prepared.would_pass}")
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
    if prepared.rows and prepared.members_get_total:
        lines.append(f"warning: {OURS_ALONE}")
    if kept_here:
        lines.append(f"{kept_here} of {prepared.table_rows} rows are kept back, for `odc evaluate`")
    lines += _alone(prepared) + _sent_before(prepared)
    lines += [f"not allowed, by our policy or by the terms: {phrase}" for phrase in refused]
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
        f"share of a {row} that the projection drops (epsilon-DR): at least {hidden.minimum:.1%},"
        f" median {hidden.median:.1%}"
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
