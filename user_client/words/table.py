"""In words: what terms find in a table, before anybody signs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocol.sums import is_by_class
from protocol.table_schema import LevelsColumn
from protocol.terms import Terms
from user_client.sdk.terms import CheckedTable
from user_client.tables import ColumnProfile, Misfit, strangeness
from user_client.words.models import fewer_in_words, signal_in_words
from user_client.words.risk import OURS_ALONE, information_in_words, isolated_in_words


def misfits_in_words(found: Sequence[Misfit]) -> str:
    """Return what of a table does not fit the terms, and what to do about each."""
    return "\n".join(f"{misfit.detail}\n  fix: {misfit.fix}" for misfit in found)


def checked_in_words(terms: Terms, found: CheckedTable, *, is_short: bool = False) -> str:
    """Return how a table goes with terms, for people: what does not fit, or what was found and warnings.

    Parameters
    ----------
    is_short : bool
        For who is asked right below: warnings last, and without counts of columns of which nothing is empty,
        clipped or a code.
    """
    if found.misfits:
        return misfits_in_words(found.misfits)
    warnings, rest = risk_in_words(terms, found)
    fits = f"the table fits: {found.rows:,} rows of {found.features:,} encoded features"
    counts = _counts_in_words(found.profile, is_short=is_short)
    marked = [f"warning: {line}" for line in warnings]
    return "\n".join([fits, *rest, *counts, *marked] if is_short else [*marked, fits, *rest, *counts])


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
