"""`odc-analyst accept-arrays`."""

from __future__ import annotations

from typing import Annotated

import typer

from analyst_server.cli_options import AsJson, DataDir, open_as_operator, settings_of, show_value
from analyst_server.services import own_arrays
from protocol.errors import InputError


def accept_arrays(
    data_dir: DataDir = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="nothing else is to be mounted or restored there")
    ] = False,
    as_json: AsJson = False,
) -> None:
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
