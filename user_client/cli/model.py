"""The commands on the model that came back, beside predicting with it: export, serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from protocol.errors import InputError
from user_client.cli.options import (
    AsJson,
    CollaborationOption,
    Force,
    busy,
    open_session,
    refuse_to_overwrite,
    show,
    write_output,
    write_private,
)
from user_client.errors import MissingExtraError


def export(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="ONNX file; its card goes beside it")] = Path("model.onnx"),
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Write one ONNX file from the raw columns of a table to the answer, for other programs in this house.

    It holds the secret map F_i G_i and must not leave the institution. A card in Markdown goes beside it.
    """
    card = out.with_suffix(".md")
    if card == out:
        raise InputError(f"{out} would be the card: name the model with another ending, such as .onnx")
    for path in (out, card):
        refuse_to_overwrite(path, force=force)
    with open_session(context) as session:
        chosen = session.round(collaboration)
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


def serve(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="address to listen on; any but the loopback needs TLS")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8080,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="file with the token that callers send; created if it is not there [default: serve.token in"
            " the state directory, and none with --client-ca]"
        ),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file of the service")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file with its key")] = None,
    client_ca: Annotated[
        Path | None, typer.Option(help="PEM file of the CA whose certificates callers must have")
    ] = None,
    collaboration: CollaborationOption = None,
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
        predictor = session.round(collaboration).predictor()
        if token_file is None and client_ca is None:
            token_file = session.home.path / "serve.token"
    token = service.read_or_create_token(token_file) if token_file else None
    asks = f"send the token in {token_file}" if token_file else "callers need a certificate of --client-ca"
    typer.echo(f"predicting at {listening.url}/v1/predictions; {asks}")
    service.serve(predictor, listening, token)


COMMANDS: Final[tuple[Callable[..., None], ...]] = (export, serve)
"""The commands of this module that stand directly behind `odc`."""
