"""`odc terms draft`: terms from our own table or a data dictionary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from protocol.errors import InputError
from protocol.sealing import HYBRID
from user_client.cli.options import AsJson, Force, options_of, refuse_to_overwrite, show, write_private
from user_client.cli.table_options import TABLE, by_column, columns_if_needed, reads_table
from user_client.custody.home import Home
from user_client.sdk import analyst_key
from user_client.sdk.agreement import DITHER
from user_client.sdk.drafting import DraftedTerms, draft_terms, draft_terms_from_dictionary
from user_client.sdk.drafting_sums import naming_sums, with_sums
from user_client.tables import Source
from user_client.tables.draft_label import DraftedEvent
from user_client.words import fewer_in_words, information_in_words, signal_in_words

LatentDim = Annotated[
    int | None,
    typer.Option(help="how many numbers a row becomes (default: as many as this table's label needs)"),
]
RepDtype = Annotated[
    str, typer.Option(help="number type of what leaves: i1 for scaled 8-bit integers, f2, or f4")
]
Dither = Annotated[
    float,
    typer.Option(help="noise on the projected rows, in their own standard deviations; 0 for none"),
]
Encoding = Annotated[
    str,
    typer.Option(
        help="what a number becomes: its rank among quantiles (ranks), its place in a range of quantiles"
        " (ranges), or that without centring, as in the papers (plain)"
    ),
]
Categories = Annotated[
    list[str] | None, typer.Option(help="column of numbers that are names of categories; repeat for more")
]
Dates = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=FORMAT",
        help="how a column of dates is written, such as dd/mm/yyyy, if that cannot be told; repeat for more",
    ),
]
Durations = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=SINCE",
        help="column of dates that becomes the days since the date in another column; repeat for more",
    ),
]
Ordinals = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=LOW,...,HIGH",
        help="column whose levels have this order, the lowest first; repeat for more",
    ),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        help="column of which one level takes all rare texts and all that only other institutions have;"
        " repeat for more"
    ),
]
Imputes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE",
        help="what an empty field of a column counts as, such as smoker=no; repeat for more [the middle]",
    ),
]
Logarithms = Annotated[
    list[str] | None,
    typer.Option(help="column of numbers that are mapped as their logarithms; repeat for more"),
]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", help="class of the label that only other institutions have; repeat for more"),
]
Missing = Annotated[
    list[str] | None, typer.Option(help="text that stands for an empty field, e.g. -999; repeat for more")
]
MissingIn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=TEXT",
        help="text that stands for an empty field in one column alone, e.g. smoker=9; repeat for more",
    ),
]
OutOfRange = Annotated[str, typer.Option(hidden=True)]
"""An option of 0.1.0: ``clip`` is what a draft does now."""
Nri = Annotated[
    bool,
    typer.Option("--nri", help="every institution erases its basis, and receives predictions for the anchor"),
]
ModelKind = Annotated[
    str | None,
    typer.Option(
        help="kind of the model, such as logistic, whose coefficients can be read, or auto, which compares"
        " several; without it averaged, or cox for survival"
    ),
]
AlignmentName = Annotated[
    str, typer.Option(help="method of alignment, such as odc, or auto, which compares several")
]
ClassWeightOption = Annotated[
    str | None,
    typer.Option(
        "--class-weight",
        help="balanced: every class counts the same in training, so that a rare one is found more often, and"
        " its probabilities are too high; without it each row counts the same",
    ),
]
LateConsumers = Annotated[
    list[str] | None,
    typer.Option(help="institution among the parties that sends no rows, after the release; repeat for more"),
]
ModelEpsilon = Annotated[
    float | None,
    typer.Option(
        help="train a logistic regression that is differentially private towards all who get it; under sums,"
        " add noise to the total, so that it is private towards the analyst too; 1 is strong, 10 is weak"
    ),
]
TaskOption = Annotated[
    str, typer.Option("--task", help="what the label is: classes, number, survival or multilabel")
]
DictionaryFile = Annotated[
    Path | None,
    typer.Option(
        help="data dictionary (TOML or CSV) to draft from in place of a table, so that no row is used"
    ),
]
LabelRange = Annotated[
    str | None,
    typer.Option(metavar="LOW:HIGH", help="between which the numbers of the label lie at every institution"),
]
EventColumn = Annotated[
    str | None, typer.Option(help="survival: the column that says how the time in --label ended")
]
Seen = Annotated[
    str | None, typer.Option(help="survival: what --event says where the event was seen, such as 1")
]
Times = Annotated[
    list[float] | None,
    typer.Option(help="survival: a time to predict for; repeat for more [the quartiles of the events]"),
]
GroupsWithin = Annotated[
    float | None,
    typer.Option(
        metavar="DISTANCE",
        help="institutions whose shares of the classes differ by at most so much, such as 0.2, share a model,"
        " instead of one model for all",
    ),
]
Retention = Annotated[
    int | None,
    typer.Option(
        metavar="DAYS",
        help="the analyst erases what it was sent so many days after the release, or without one after the"
        " last uplink",
    ),
]
SealingSuiteOption = Annotated[
    str,
    typer.Option(
        "--sealing-suite",
        help="what the anchor is sealed with: mlkem768-x25519, or of parts that FIPS approves mlkem1024-p384,"
        " or p256, which is not safe from quantum computers",
    ),
]
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


@reads_table
def draft(
    context: typer.Context,
    table: Annotated[
        Source | None, typer.Argument(help="CSV, Parquet, Excel or Feather file", **TABLE)
    ] = None,
    *,
    label: Annotated[
        list[str], typer.Option(help="column to predict; repeat for several labels of two values each")
    ],
    party: Annotated[list[str], typer.Option(help="an institution; repeat for each, the lead first")],
    title: Annotated[str, typer.Option(help="title of the collaboration")] = "Untitled collaboration",
    purpose: Annotated[str, typer.Option(help="what the model is for; everybody signs it")] = "",
    latent_dim: LatentDim = None,
    rep_dtype: RepDtype = "i1",
    dither: Dither = DITHER,
    encoding: Encoding = "ranks",
    category: Categories = None,
    date: Dates = None,
    duration: Durations = None,
    ordinal: Ordinals = None,
    other: Others = None,
    impute: Imputes = None,
    logarithm: Logarithms = None,
    class_: Classes = None,
    missing: Missing = None,
    missing_in: MissingIn = None,
    exclude: Annotated[list[str] | None, typer.Option(help="column to leave out; repeat for more")] = None,
    nri: Nri = False,
    model: ModelKind = None,
    alignment: AlignmentName = "isotropic",
    class_weight: ClassWeightOption = None,
    model_epsilon: ModelEpsilon = None,
    late_consumer: LateConsumers = None,
    groups_within: GroupsWithin = None,
    retention_days: Retention = None,
    sealing_suite: SealingSuiteOption = HYBRID,
    uplink: UplinkKind = "rows",
    random_features: RandomFeatures = 0,
    cohort: CohortOption = False,
    task: TaskOption = "classes",
    label_range: LabelRange = None,
    event: EventColumn = None,
    seen: Seen = None,
    time: Times = None,
    out_of_range: OutOfRange = "clip",
    dictionary: DictionaryFile = None,
    out: Annotated[Path, typer.Option(help="where to write it")] = Path("terms.toml"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draft terms from our own table, to be corrected by hand. Nothing is sent."""
    _refuse_other_than_clip(out_of_range)
    refuse_to_overwrite(out, force=force)
    drafted = _draft(
        table,
        dictionary,
        _of_a_table(
            _of_columns(table, category, date, duration, ordinal, other, impute, logarithm, missing_in),
            encoding,
            class_,
            label_range,
        ),
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
        event=_event(event, seen, time or ()),
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


def _of_columns(
    table: Source | None,
    category: Categories,
    date: Dates,
    duration: Durations,
    ordinal: Ordinals,
    other: Others,
    impute: Imputes,
    logarithm: Logarithms,
    missing_in: MissingIn,
) -> dict[str, Any]:
    """Return what was said of some columns of a table, as `draft_terms` takes it."""
    columns = columns_if_needed(table, date, duration, ordinal, impute, missing_in)
    codes: dict[str, list[str]] = {}
    for code in missing_in or ():
        for name, text in by_column("--missing-in", [code], columns).items():
            codes.setdefault(name, []).append(text)
    in_order = by_column("--ordinal", ordinal, columns)
    return {
        "missing_in": codes,
        "categories": category,
        "dates": by_column("--date", date, columns),
        "durations": by_column("--duration", duration, columns),
        "ordinals": {name: said.split(",") for name, said in in_order.items()},
        "others": other,
        "imputes": by_column("--impute", impute, columns),
        "logarithms": logarithm,
    }


def _of_a_table(
    of_columns: dict[str, Any], encoding: str, classes: Classes, label_range: LabelRange
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
