"""`odc terms draft`: terms from our own table or a data dictionary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from protocol.errors import InputError
from protocol.sealing import HYBRID
from runtime.command_line import PATH, as_json_option
from user_client.cli.column_options import says_of_columns
from user_client.cli.options import (
    force_option,
    options_of,
    refuse_to_overwrite,
    show,
    write_private,
)
from user_client.cli.table_options import TABLE, reads_table
from user_client.custody.home import Home
from user_client.sdk import analyst_key
from user_client.sdk.agreement import DITHER
from user_client.sdk.drafting import DraftedTerms, draft_terms, draft_terms_from_dictionary
from user_client.sdk.drafting_sums import naming_sums, with_sums
from user_client.tables import Source
from user_client.tables.draft_label import DraftedEvent
from user_client.words import fewer_in_words, information_in_words, signal_in_words


@click.command()
@click.argument("table", type=TABLE, required=False, help="CSV, Parquet, Excel or Feather file")
@click.option(
    "--label",
    multiple=True,
    required=True,
    help="column to predict; repeat for several labels of two values each",
)
@click.option("--party", multiple=True, required=True, help="an institution; repeat for each, the lead first")
@click.option("--title", default="Untitled collaboration", help="title of the collaboration")
@click.option("--purpose", default="", help="what the model is for; everybody signs it")
@click.option(
    "--latent-dim",
    type=int,
    help="how many numbers a row becomes (default: as many as this table's label needs)",
)
@click.option(
    "--rep-dtype", default="i1", help="number type of what leaves: i1 for scaled 8-bit integers, f2, or f4"
)
@click.option(
    "--dither",
    type=float,
    default=DITHER,
    help="noise on the projected rows, in their own standard deviations; 0 for none",
)
@click.option(
    "--encoding",
    default="ranks",
    help="what a number becomes: its rank among quantiles (ranks), its place in a range of quantiles"
    " (ranges), or that without centring, as in the papers (plain)",
)
@click.option(
    "--class",
    "class_",
    multiple=True,
    help="class of the label that only other institutions have; repeat for more",
)
@click.option(
    "--missing", multiple=True, help="text that stands for an empty field, e.g. -999; repeat for more"
)
@click.option("--exclude", multiple=True, help="column to leave out; repeat for more")
@click.option(
    "--nri", is_flag=True, help="every institution erases its basis, and receives predictions for the anchor"
)
@click.option(
    "--model",
    help="kind of the model, such as logistic, whose coefficients can be read, or auto, which compares"
    " several; without it averaged, or cox for survival",
)
@click.option(
    "--alignment",
    default="isotropic",
    help="method of alignment, such as odc, or auto, which compares several",
)
@click.option(
    "--class-weight",
    help="balanced: every class counts the same in training, so that a rare one is found more often, and"
    " its probabilities are too high; without it each row counts the same",
)
@click.option(
    "--model-epsilon",
    type=float,
    help="train a logistic regression that is differentially private towards all who get it; under sums,"
    " add noise to the total, so that it is private towards the analyst too; 1 is strong, 10 is weak",
)
@click.option(
    "--late-consumer",
    multiple=True,
    help="institution among the parties that sends no rows, after the release; repeat for more",
)
@click.option(
    "--groups-within",
    type=float,
    metavar="DISTANCE",
    help="institutions whose shares of the classes differ by at most so much, such as 0.2, share a model,"
    " instead of one model for all",
)
@click.option(
    "--retention-days",
    type=int,
    metavar="DAYS",
    help="the analyst erases what it was sent so many days after the release, or without one after the"
    " last uplink",
)
@click.option(
    "--sealing-suite",
    default=HYBRID,
    help="what the anchor is sealed with: mlkem768-x25519, or of parts that FIPS approves mlkem1024-p384,"
    " or p256, which is not safe from quantum computers",
)
@click.option(
    "--uplink",
    type=click.Choice(["rows", "sums"]),
    default="rows",
    help="what institutions send: projected rows, or masked sums over all their rows",
)
@click.option(
    "--random-features",
    type=int,
    default=0,
    help="under sums: so many random features of a row as well, for curved boundaries",
)
@click.option(
    "--cohort",
    is_flag=True,
    help="under sums: each institution gets the total, for means, correlations and exact intervals of"
    " coefficients; with it each also knows the sums of all others together",
)
@click.option("--task", default="classes", help="what the label is: classes, number, survival or multilabel")
@click.option(
    "--label-range",
    metavar="LOW:HIGH",
    help="between which the numbers of the label lie at every institution",
)
@click.option("--event", help="survival: the column that says how the time in --label ended")
@click.option("--seen", help="survival: what --event says where the event was seen, such as 1")
@click.option(
    "--time",
    type=float,
    multiple=True,
    help="survival: a time to predict for; repeat for more [the quartiles of the events]",
)
@click.option("--out-of-range", default="clip", hidden=True)  # of 0.1.0; a draft clips now
@click.option(
    "--dictionary",
    type=PATH,
    help="data dictionary (TOML or CSV) to draft from in place of a table, so that no row is used",
)
@click.option("--out", type=PATH, default="terms.toml", help="where to write it")
@force_option
@as_json_option
@reads_table
@says_of_columns
@click.pass_context
def draft(
    context: click.Context,
    table: Source | None,
    of_columns: dict[str, Any],
    label: tuple[str, ...],
    party: tuple[str, ...],
    title: str,
    purpose: str,
    latent_dim: int | None,
    rep_dtype: str,
    dither: float,
    encoding: str,
    class_: tuple[str, ...],
    missing: tuple[str, ...],
    exclude: tuple[str, ...],
    nri: bool,
    model: str | None,
    alignment: str,
    class_weight: str | None,
    model_epsilon: float | None,
    late_consumer: tuple[str, ...],
    groups_within: float | None,
    retention_days: int | None,
    sealing_suite: str,
    uplink: Literal["rows", "sums"],
    random_features: int,
    cohort: bool,
    task: str,
    label_range: str | None,
    event: str | None,
    seen: str | None,
    time: tuple[float, ...],
    out_of_range: str,
    dictionary: Path | None,
    out: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Draft terms from our own table, to be corrected by hand. Nothing is sent."""
    _refuse_other_than_clip(out_of_range)
    refuse_to_overwrite(out, force=force)
    drafted = _draft(
        table,
        dictionary,
        _of_a_table(of_columns, encoding, class_, label_range),
        label=label[0] if len(label) == 1 else label,
        parties=party,
        title=title,
        purpose=purpose,
        latent_dim=latent_dim,
        rep_dtype=rep_dtype,
        dither=dither,
        **_given(exclude=exclude, missing=missing, class_weight=class_weight, late_consumers=late_consumer),
        groups_within=groups_within,
        nri=nri,
        model=model,
        alignment=alignment,
        model_epsilon=None if uplink == "sums" else model_epsilon,
        retention_days=retention_days,
        sealing_suite=sealing_suite,
        task="multilabel" if len(label) > 1 and task == "classes" else task,
        event=_event(event, seen, time),
    )
    of_sums = {"random_features": random_features, "cohort": cohort}
    drafted = _with_sums(drafted, table, uplink, latent_dim, of_sums, model_epsilon)
    drafted = drafted.signed_by(analyst_key.believed(Home(options_of(context).home)))
    write_private(out, drafted.to_toml().encode())
    show(as_json, _drafted_as_json(out, drafted), lambda: _drafted_text(out, drafted))


def _refuse_other_than_clip(out_of_range: str) -> None:
    if out_of_range != "clip":
        raise InputError('drafted columns clip: write out_of_range = "refuse" into a numeric column by hand')


def _given(**options: Any) -> dict[str, Any]:
    """Return the options that were given: the others have the defaults of `draft_terms`."""
    return {name: value for name, value in options.items() if value}


def _of_a_table(
    of_columns: dict[str, Any], encoding: str, classes: tuple[str, ...], label_range: str | None
) -> dict[str, Any]:
    """Return the options that only a table has, if they were given, as `draft_terms` takes them."""
    encoding = "" if encoding == "ranks" else encoding
    return _given(**of_columns, encoding=encoding, classes=classes, label_range=_range(label_range))


def _drafted_as_json(out: Path, drafted: DraftedTerms) -> dict[str, Any]:
    return {
        "terms": str(out),
        "features": drafted.features,
        "latent_dim": drafted.latent_dim,
        "signal": asdict(drafted.signal) if drafted.signal else None,
        "fewer": [asdict(one) for one in drafted.fewer],
        "information": asdict(drafted.information) if drafted.information else None,
        "remarks": drafted.remarks,
    }


def _draft(
    table: Source | None, dictionary: Path | None, of_a_table: dict[str, Any], **options: Any
) -> DraftedTerms:
    """Draft from a table or from a dictionary; raises `InputError` if an option does not go with it."""
    if (table is None) == (dictionary is None):
        raise InputError("name a table to draft from, or a data dictionary with --dictionary, and not both")
    if dictionary is None:
        return draft_terms(table, **of_a_table, **options)
    if of_a_table:
        raise InputError(
            "--encoding, --category, --date, --duration, --ordinal, --other, --impute, --logarithm,"
            " --missing-in, --class and --label-range go with a table; a dictionary says such things itself"
        )
    return draft_terms_from_dictionary(dictionary, **options)


def _with_sums(
    drafted: DraftedTerms,
    table: Source | None,
    uplink: str,
    latent_dim: int | None,
    of_sums: dict[str, Any],
    epsilon: float | None,
) -> DraftedTerms:
    """Make a draft one of sums, if asked for; raises `InputError` if an option does not go with it."""
    if uplink != "sums":
        for name in _given(**of_sums):
            raise InputError(f"--{name.replace('_', '-')} goes with --uplink sums")
        return naming_sums(drafted)
    if latent_dim is not None:
        raise InputError("--latent-dim goes with rows: all features are summed")
    return with_sums(drafted, table, **of_sums, epsilon=epsilon)


def _event(column: str | None, seen: str | None, times: Sequence[float]) -> DraftedEvent | None:
    """Return what ends a time; raises `InputError`."""
    if column is None and seen is None and not times:
        return None
    if column is None or seen is None:
        raise InputError("--task survival needs --event COLUMN and --seen VALUE, and --time goes with them")
    return DraftedEvent(column, seen, times)


def _range(text: str | None) -> tuple[float, float] | None:
    """Return the ends of a range; raises `InputError`."""
    if text is None:
        return None
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InputError(f"--label-range is LOW:HIGH, such as 0:120, got {text}") from None
    if not (math.isfinite(high - low) and low < high):
        raise InputError(f"--label-range is LOW:HIGH with LOW below HIGH, got {text}")
    return low, high


def _drafted_text(out: Path, drafted: DraftedTerms) -> str:
    lines = [
        f"terms with {drafted.features} encoded features and latent_dim {drafted.latent_dim} written to {out}"
    ]
    if drafted.signal:
        lines += [signal_in_words(drafted.signal, None), *fewer_in_words(drafted.fewer)]
    if drafted.information:
        lines.append(information_in_words(drafted.information))
    lines += [f"look at {remark}" for remark in drafted.remarks]
    if not drafted.content["purpose"]:
        lines.append("look at purpose: it is empty; write what the model is for, which everybody signs")
    lines += [
        "check the file line by line: every member will see the classes, levels, quantiles and shares in it",
        f"then: odc terms check TABLE --terms {out}",
        "next: send the file to the analyst, who runs `odc-analyst collaboration create`",
    ]
    return "\n".join(lines)
