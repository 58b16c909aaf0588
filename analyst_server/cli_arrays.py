"""`odc-analyst accept-arrays`."""

from __future__ import annotations

from pathlib import Path

import click

from analyst_server.cli_options import (
    data_dir_option,
    open_as_operator,
    settings_of,
    show_value,
)
from analyst_server.services import own_arrays
from protocol.errors import InputError
from runtime.command_line import as_json_option


@click.command()
@data_dir_option
@click.option("--yes", is_flag=True, help="nothing else is to be mounted or restored there")
@as_json_option
def accept_arrays(data_dir: Path | None, yes: bool, as_json: bool) -> None:
    """Take the arrays that are there for those of these records, where their ids differ or one is missing."""
    analyst = open_as_operator(settings_of(data_dir))
    if not yes:
        error = InputError(
            f"what is in {analyst.blobs.place} would be taken for the arrays of these records,"
            " and every uplink that is not in it would count as damaged"
        )
        error.hint = "mount or restore the right arrays; only if there are none any more, say --yes"
        raise error
    found = {"place": analyst.blobs.place, "store_id": own_arrays.accept(analyst)}
    show_value(
        found,
        as_json,
        lambda shown: (
            f"{shown['place']} is the place of the arrays of these records; run `odc-analyst verify`"
        ),
    )
