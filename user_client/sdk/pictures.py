"""A picture of the prepared table, for its owner alone."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.table_schema import Schema
from user_client.custody.round_directory import RoundDirectory
from user_client.errors import NotPreparedError
from user_client.privacy.noise import add_dither
from user_client.privacy.picture import png, side_by_side
from user_client.privacy.reduction import hidden_share
from user_client.sdk import hold_out, uplink
from user_client.sdk.prepared import prepared_before
from user_client.sdk.privacy import SECRET, PrivacyOptions, dithered, with_noise
from user_client.sdk.terms import accepted_terms, own_schema
from user_client.secret.expansion import Matrix64, gaussian
from user_client.tables import encode_labels, encode_rows, strata, table_from

PICTURE_ROWS: Final = 6


def draw_picture(directory: RoundDirectory, data: Any, shape: tuple[int, int], count: int) -> bytes:
    """Return a PNG of a few rows of the prepared table: original, projected, rebuilt under collusion."""
    terms = accepted_terms(directory)
    prepared, basis = prepared_before(directory), uplink.stored_basis(directory)
    if prepared is None or basis is None:
        raise NotPreparedError("a picture needs a prepared table and its secret basis; one is missing")
    if uplink.stored_own_map(directory) is not None:
        raise InputError("a picture shows linear maps of rows, and these were prepared with --own-map")
    kept = hold_out.kept_back(directory)
    options = dithered(prepared.options, terms.dither)
    return picture(data, own_schema(directory), shape, basis, options, count=count, kept_back=kept)


def picture(
    data: Any,
    schema: Schema,
    shape: tuple[int, int],
    secret_basis: Matrix64,
    options: PrivacyOptions,
    *,
    count: int,
    kept_back: NDArray[np.int64],
) -> bytes:
    """Return a PNG of a few rows: original, projected, and rebuilt by an analyst and a member who collude.

    One row of each class comes first; rows that were left out are not shown. Noise is drawn again with the
    same deviation, because the noise on the rows that leave is not stored.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        The table that was prepared.
    shape : (height, width)
        Of a row as an image, its features line by line.
    kept_back : (k,) ndarray of int
        The rows of the table that do not leave because we evaluate on them.

    Raises
    ------
    InputError
        If the shape does not have as many pixels as a row has features, or there is no row to show.
    """
    if min(shape) < 1 or shape[0] * shape[1] != schema.width:
        pixels = " x ".join(map(str, shape))
        raise InputError(f"a row has {schema.width} features, a picture of {pixels} does not fit")
    table = table_from(data)
    rows, labels = encode_rows(table, schema), encode_labels(table, schema)
    seen = with_noise(rows, options)
    leaves = np.flatnonzero(hidden_share(seen, secret_basis) >= (options.drop_below or 0))
    leaves = np.setdiff1d(leaves, kept_back)
    if not len(leaves):
        raise InputError("there is no row to draw")
    chosen = leaves[_one_of_each_class_first(strata(labels[leaves], schema.label_column.task))[:count]]
    rep = with_dither(seen @ secret_basis, options)[chosen]
    return png(side_by_side(rows[chosen], rep, rep @ secret_basis.T, shape))


def _one_of_each_class_first(labels: NDArray[Any]) -> NDArray[np.int64]:
    _, first = np.unique(labels, return_index=True)
    return np.concatenate([first, np.setdiff1d(np.arange(len(labels)), first)])


def with_dither(rep: Matrix64, options: PrivacyOptions) -> Matrix64:
    """Return projected rows with noise, or unchanged if the options have no dither."""
    if options.dither is None:
        return rep
    return add_dither(rep, options.dither, partial(gaussian, SECRET.stream("dither")))
