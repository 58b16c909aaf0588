"""What comes back, and what it says of our rows: `odc receive`, `odc predict`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from protocol.errors import InputError, OdcError
from runtime.command_line import PATH, as_json_option
from user_client.cli.options import (
    collaboration_option,
    force_option,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
)
from user_client.cli.parts import predictor_with
from user_client.cli.progress import busy, reading
from user_client.cli.table_options import reads_table, table_argument
from user_client.errors import FieldError
from user_client.sdk.next_steps import prediction_in_words
from user_client.sdk.parts import JoinedPredictor
from user_client.sdk.round import Round
from user_client.sdk.shared_rows import have_come
from user_client.sdk.unfit_rows import UnfitRows
from user_client.tables import OUTPUT, Source, is_parquet, read_parts, table_writer, without_formulas

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@click.command()
@click.option("--wait", type=float, default=0, help="seconds to wait for the release")
@collaboration_option
@as_json_option
@click.pass_context
def receive(context: click.Context, wait: float, collaboration: str | None, as_json: bool) -> None:
    """Fetch our one downlink: change of basis and model, or predictions to train our own model on."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        with busy(as_json, "waiting for the downlink, and training on it"):
            manifest = chosen.receive(wait_s=wait)
        found = chosen.own_model() if manifest.has_anchor_predictions else None
        has_rows = not as_json and found is None and _has_rows(chosen)
    sizes = {spec.name: spec.payload_bytes for spec in manifest.arrays}
    value = {
        "collaboration_id": chosen.id,
        "payload_bytes": sum(sizes.values()),
        "arrays": sizes,
        "model_parameters": manifest.model_parameters,
        "held_out_agreement": found.held_out_agreement if found else None,
    }
    trained = (
        "our own model is trained: it predicts the same class as the analyst's model for"
        f" {found.held_out_agreement:.1%} of the anchor rows it was not trained on\n"
        if found
        else ""
    )
    first = "odc train (a model of our own, on the rows of all institutions), or " if has_rows else ""
    show(
        as_json,
        value,
        lambda: (
            f"received {sum(sizes.values()):,} bytes\n"
            f"{trained}next: {first}{prediction_in_words(chosen.directory)}"
        ),
    )


def _has_rows(chosen: Round) -> bool:
    """Return whether the model that was received is the rows of all institutions."""
    try:
        return have_come(chosen.directory)
    except OdcError:  # `odc predict` says what is wrong with the model; it has arrived
        return False


@click.command()
@table_argument
@click.option(
    "--out",
    type=PATH,
    default="predictions.csv",
    help="CSV or Parquet file, by its ending; - for the output of the program. CSV has the separator, the"
    " decimal mark and the encoding of the table",
)
@click.option(
    "--keep",
    multiple=True,
    help="column of the table to write before the prediction, such as a patient number",
)
@click.option(
    "--threshold",
    multiple=True,
    help="CLASS=P: predict this class, or one of several labels, from this probability on: yes=0.3",
)
@click.option(
    "--interval",
    type=float,
    help="for a number: its interval that holds this share of rows like those of `odc evaluate`, such as 0.9",
)
@click.option(
    "--with",
    "with_",
    type=PATH,
    multiple=True,
    help="where rows are joined: the file that another institution made by `odc part` for the same rows;"
    " repeat for each",
)
@click.option(
    "--skip-unfit",
    is_flag=True,
    help="a row that does not fit the terms gets an empty prediction and is named; without this, one"
    " such row refuses the table",
)
@force_option
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def predict(
    context: click.Context,
    table: Source,
    out: Path,
    keep: tuple[str, ...],
    threshold: tuple[str, ...],
    interval: float | None,
    with_: tuple[Path, ...],
    skip_unfit: bool,
    force: bool,
    collaboration: str | None,
    as_json: bool,
) -> None:
    """Predict on this machine: label and probabilities of each row, in the order of the table.

    The table is read part by part, so it may be larger than the memory.
    """
    if table.is_at(out):
        raise InputError(f"{out} is the table itself: name another file with --out")
    if out == OUTPUT and as_json:
        raise InputError("--json and --out - both want the output of the program: leave one of them out")
    refuse_to_overwrite(out, force=force)
    thresholds = dict(map(_threshold, threshold))
    if len(thresholds) < len(threshold):
        raise InputError("--threshold names a class, or a label, more than once: give each one threshold")
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, received=True)
        predictor, answering = predictor_with(chosen, with_)
    predictor.check(thresholds=thresholds, coverage=interval)
    rows, unfit = 0, UnfitRows() if skip_unfit else None
    with reading(as_json or out == OUTPUT, table, "predicting") as watched:
        parts = answering.predict_parts(
            read_parts(watched), keep=keep, thresholds=thresholds, coverage=interval, unfit=unfit
        )
        if not skip_unfit and answering is predictor:  # parts of others are of whole tables
            parts = _naming_skip_unfit(parts)
        empty = next(parts)
        with table_writer(out, empty.schema, table.written) as write:
            for part in parts:
                # the terms have named the classes
                write(part if is_parquet(out) else without_formulas(part, *predictor.prediction_columns))
                rows += part.num_rows
    if unfit:
        log.warning(
            "%d of %d rows do not fit the terms, and have no prediction: %s", len(unfit), rows, unfit.in_words
        )
    if out != OUTPUT:
        value: dict[str, object] = {"rows": rows, "predictions": str(out)}
        if isinstance(answering, JoinedPredictor):
            value["left_out"] = answering.left_out
        if unfit is not None:
            value["unfit"] = {"rows": len(unfit), "by_column": unfit.counts}
        show(as_json, value, lambda: _written(rows - len(unfit or ()), out))


def _written(rows: int, out: Path) -> str:
    return f"{rows:,} prediction{'' if rows == 1 else 's'} written to {out}"


def _naming_skip_unfit(predicted: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same predictions; the hint of an error about some rows names the option that skips them."""
    try:
        yield from predicted
    except FieldError as error:
        error.hint += "; --skip-unfit predicts for all rows that fit, and leaves the others empty"
        raise


def _threshold(text: str) -> tuple[str, float]:
    """Return class and probability of a ``--threshold``; raises `InputError`."""
    name, separator, number = text.rpartition("=")
    try:
        if not separator:
            raise ValueError
        return name, float(number)
    except ValueError:
        raise InputError("--threshold must be CLASS=PROBABILITY, such as yes=0.3") from None


COMMANDS: Final[tuple[click.Command, ...]] = (receive, predict)
"""The commands of this module that stand directly behind `odc`."""
