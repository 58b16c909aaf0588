"""`odc ui`: the same round by clicking, in a browser on this machine."""

from __future__ import annotations

from typing import Final

import click

from user_client.cli.options import open_session, options_of
from user_client.errors import MissingExtraError


@click.command()
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=0,
    help="port to listen on; 0 for any that is free",
)
@click.option("--no-browser", is_flag=True, help="print the address, and open no browser")
@click.option(
    "--idle",
    type=click.FloatRange(min=0.01),
    default=60.0,
    help="minutes without a look at a page after which it ends",
)
@click.pass_context
def ui(context: click.Context, port: int, no_browser: bool, idle: float) -> None:
    """Open our own pages in a browser on this machine: the terms, our table, what would leave, the model.

    The address opens once, for one browser. Nothing of the pages leaves this machine.
    """
    try:
        from user_client import ui as pages
        from user_client.ui.work import Desk
    except ModuleNotFoundError:
        raise MissingExtraError("odc ui", "ui") from None
    options = options_of(context)
    with open_session(context) as session:
        if session.home.is_protected():
            options.passphrase()  # now, while somebody is at the terminal
    pages.serve_pages(
        Desk(options.home, options.passphrase),
        port=port,
        idle_minutes=idle,
        opens_browser=not no_browser,
        tell=lambda url: click.echo(f"open this address, once: {url}\nend with Ctrl-C"),
    )
    click.echo("the pages have ended", err=True)


COMMANDS: Final[tuple[click.Command, ...]] = (ui,)
"""The commands of this module that stand directly behind `odc`."""
