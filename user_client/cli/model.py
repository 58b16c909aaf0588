"""The commands on the model that came back, beside `predict`: train, export, coefficients, explain, serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast, get_args

import click

from protocol.errors import InputError
from runtime.command_line import PATH, as_json_option
from runtime.terminal import FIGURES, figure, printable
from user_client.cli.options import (
    collaboration_option,
    force_option,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
    write_output,
    write_private,
)
from user_client.cli.progress import busy
from user_client.cli.table_options import TABLE, reads_table, table_argument
from user_client.errors import MissingExtraError
from user_client.sdk.contrasts import Coefficients
from user_client.sdk.explanation import Background, Explanation
from user_client.sdk.joined_rows import own_group, require_whole_rows
from user_client.tables import OUTPUT, Source, is_parquet, table_writer, without_formulas

_COLUMNS_SHOWN: Final = 20


@click.command()
@click.option(
    "--model", default="averaged", help="averaged, mlp, logistic (for classes) or ridge (for numbers)"
)
@click.option("--remove", is_flag=True, help="go back to the model that was received")
@collaboration_option
@as_json_option
@click.pass_context
def train(context: click.Context, model: str, remove: bool, collaboration: str | None, as_json: bool) -> None:
    """Train a model of our own on the aligned rows of all institutions, where the terms share them (knn).

    It then predicts instead of the one that was received. Nothing leaves this machine.
    """
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, received=True)
        if remove:
            chosen.remove_trained()
            show(as_json, {"removed": True}, lambda: "the model that was received predicts again")
            return
        with busy(as_json, "training on the rows of all institutions"):
            found = chosen.train(model)
    share = f"{found.rows:,}" if found.rows == found.of_rows else f"{found.rows:,} of {found.of_rows:,}"
    show(
        as_json,
        asdict(found),
        lambda: (
            f"a model of our own ({found.kind}) is trained on {share} rows of all institutions\n"
            "next: odc evaluate TABLE, odc predict TABLE"
        ),
    )


@click.command()
@click.option("--out", type=PATH, default="model.onnx", help="ONNX file; its card goes beside it")
@force_option
@collaboration_option
@as_json_option
@click.pass_context
def export(context: click.Context, out: Path, force: bool, collaboration: str | None, as_json: bool) -> None:
    """Write one ONNX file from the raw columns of a table to the answer, for other programs in this house.

    It holds the secret map F_i G_i and must not leave the institution. A card in Markdown goes beside it.
    """
    card = out.with_suffix(".md")
    if card == out:
        raise InputError(f"{out} would be the card: name the model with another ending, such as .onnx")
    for path in (out, card):
        refuse_to_overwrite(path, force=force)
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, received=True)
        with busy(as_json, "putting the file together"):
            found = chosen.export()
    write_private(out, found.onnx_file)
    write_output(card, found.card.encode())
    show(
        as_json,
        {"model": str(out), "card": str(card), "largest_difference": found.largest_difference},
        lambda: (
            f"{out} and {card} written; over made-up rows, its answers differ from those of `odc predict` by"
            f" {found.largest_difference:.1e} at most\n{out} holds the secret map F_i G_i: only you can read"
            " it, and it must stay inside this institution"
        ),
    )


@click.command()
@click.argument(
    "table", type=TABLE, required=False, help="CSV, Parquet, Excel or Feather file; not needed under sums"
)
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def coefficients(
    context: click.Context, table: Source | None, collaboration: str | None, as_json: bool
) -> None:
    """Show the coefficients of a logistic, ridge or Cox model by column, with 95 % intervals.

    TABLE has our rows with their labels, best those that were sent: the intervals come from them. Under sums
    they come from the total, if the terms give it to us.
    """
    with open_session(context) as session, busy(as_json, "reading the coefficients off the model"):
        found = round_of(session, collaboration, as_json=as_json, received=True).coefficients(table)
    show(as_json, found.to_json(), lambda: "\n".join(_coefficient_lines(found)))


def _coefficient_lines(found: Coefficients) -> Iterator[str]:
    yield f"how far each change moves the {printable(found.scale)}:"
    names = [printable(f"{each.column}, {each.change}") for each in found.coefficients]
    width, answer = max(map(len, names)), None
    for name, each in zip(names, found.coefficients, strict=True):
        if each.answer != answer:
            answer = each.answer
            yield f"{printable(str(answer))}:"
        interval = "" if each.low is None else f"   {each.low:+.4g} to {each.high:+.4g}"
        yield f"  {name:<{width}}  {each.value:+.4g}{interval}"
    if found.fit is not None:
        yield (
            f"R squared {found.fit.r_squared:.4f} over {found.fit.rows:,} rows of all institutions; standard"
            f" deviation of what is left {found.fit.deviation:.4g}, {found.fit.freedom:,} degrees of freedom"
        )
    yield from found.notes


@click.command()
@table_argument
@click.option(
    "--background",
    default="anchor",
    help="what stands for an unknown column: the rows of the anchor, or our own",
)
@click.option("--rows", type=PATH, help="CSV or Parquet file to write: the values of single rows")
@click.option("--plot", type=PATH, help="PNG or SVG file to write, by its ending")
@force_option
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def explain(
    context: click.Context,
    table: Source,
    background: str,
    rows: Path | None,
    plot: Path | None,
    force: bool,
    collaboration: str | None,
    as_json: bool,
) -> None:
    """Show which of our columns the answers come from: Shapley values, and permutation importance.

    Institutions that use the anchor can compare their figures. Nothing leaves this machine.
    """
    if background not in get_args(Background):
        raise InputError(f"--background must be one of {', '.join(get_args(Background))}")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InputError(f"{plot}: a plot is a .png or an .svg file")
    if rows == OUTPUT:
        raise InputError("--rows names a file: the output of the program has the table of the columns")
    for path, option in ((rows, "--rows"), (plot, "--plot")):
        if path is not None:
            refuse_to_overwrite(path, force=force, option=option)
    draw = _plotter() if plot else None  # before the work
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, received=True)
        with busy(as_json, "asking the model about every column"):
            found = chosen.explain(table, background=cast("Background", background))
        title = chosen.terms.title
    if rows is not None:
        values = found.row_values()
        with table_writer(rows, values.schema) as write:
            write(values if is_parquet(rows) else without_formulas(values, "outcome"))
    if plot is not None and draw is not None:
        write_output(plot, draw(found, plot.suffix[1:], f"{title}: {', '.join(found.outcomes)}"))
    show(as_json, found.to_json(), lambda: "\n".join(_explained(found)))


def _plotter() -> Callable[[Explanation, Any, str], bytes]:
    try:
        from user_client.sdk import plots
    except ModuleNotFoundError:
        raise MissingExtraError("the plot", "plots") from None
    return plots.draw


def _explained(found: Explanation) -> Iterator[str]:
    """Yield a table of the columns, the one that weighs most first."""
    width = max(len(printable(column.name)) for column in found.columns[:_COLUMNS_SHOWN])
    yield f"how far a column moves the answer ({', '.join(found.outcomes)}), over {len(found.rows)} rows:"
    for column in found.columns[:_COLUMNS_SHOWN]:
        line = f"  {printable(column.name):<{width}}  {column.shapley:.4f} ±{column.shapley_error:.4f}"
        if column.importance is not None:
            fall, spread = (
                figure(str(found.metric), one) for one in (column.importance, column.importance_spread or 0.0)
            )
            line += f"   shuffled, the score falls by {fall} ±{spread}"
        yield line
    if len(found.columns) > _COLUMNS_SHOWN:
        yield f"  and {len(found.columns) - _COLUMNS_SHOWN} more columns, all in --json"
    if found.score is None:
        yield "a table with labels would also show how far the score falls without each column"
    else:
        yield f"{FIGURES[str(found.metric)]} of these rows: {figure(str(found.metric), found.score)}"


@click.command()
@click.option("--host", default="127.0.0.1", help="address to listen on; any but the loopback needs TLS")
@click.option("--port", type=click.IntRange(min=1, max=65535), default=8080, help="port to listen on")
@click.option(
    "--token-file",
    type=PATH,
    help="file with the token that callers send, created if it is not there; without this option"
    " serve.token in the state directory, and none with --client-ca",
)
@click.option("--tls-certificate", type=PATH, help="PEM file of the service")
@click.option("--tls-key", type=PATH, help="PEM file with its key")
@click.option("--client-ca", type=PATH, help="PEM file of the CA whose certificates callers must have")
@collaboration_option
@click.pass_context
def serve(
    context: click.Context,
    host: str,
    port: int,
    token_file: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    collaboration: str | None,
) -> None:
    """Answer predictions over REST on this machine, for other systems of this institution.

    The secret map is held in memory until the service ends; the analyst is not needed.
    """
    try:
        from user_client import service
    except ModuleNotFoundError:
        raise MissingExtraError("the local service", "serve") from None
    listening = service.Listening(host, port, tls_certificate, tls_key, client_ca)
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=False, received=True)
        require_whole_rows(own_group(chosen.directory), "an answer over REST")
        predictor = chosen.predictor()
        if token_file is None and client_ca is None:
            token_file = session.home.path / "serve.token"
    token = service.read_or_create_token(token_file) if token_file else None
    asks = f"send the token in {token_file}" if token_file else "callers need a certificate of --client-ca"
    service.serve(predictor, listening, token, lambda: click.echo(f"predicting at {listening.url}; {asks}"))


COMMANDS: Final[tuple[click.Command, ...]] = (train, export, coefficients, explain, serve)
"""The commands of this module that stand directly behind `odc`."""
