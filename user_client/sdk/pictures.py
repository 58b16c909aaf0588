"""A picture of the prepared table, for its owner alone."""

from __future__ import annotations

from typing import Any

from user_client.custody.round_directory import RoundDirectory
from user_client.errors import NotPreparedError
from user_client.sdk import hold_out, privacy, uplink
from user_client.sdk.prepared import prepared_before
from user_client.sdk.terms import accepted_terms, own_schema


def draw_picture(directory: RoundDirectory, data: Any, shape: tuple[int, int], count: int) -> bytes:
    """Return a PNG of a few rows of the prepared table: original, projected, rebuilt under collusion."""
    terms = accepted_terms(directory)
    prepared, basis = prepared_before(directory), uplink.stored_basis(directory)
    if prepared is None or basis is None:
        raise NotPreparedError("a picture needs a prepared table and its secret basis; one is missing")
    kept = hold_out.kept_back(directory)
    options = privacy.dithered(prepared.options, terms.dither)
    return privacy.picture(data, own_schema(directory), shape, basis, options, count=count, kept_back=kept)
