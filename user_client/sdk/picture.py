"""A picture of what a projection hides of image-shaped rows. It is for the institution alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from protocol.errors import InputError
from user_client.errors import NotPreparedError
from user_client.privacy.picture import png, side_by_side
from user_client.privacy.reduction import hidden_share
from user_client.sdk.privacy import Labels, PrivacyOptions, with_noise
from user_client.sdk.session import Session
from user_client.sdk.terms import stored_terms
from user_client.sdk.uplink import prepared_before, stored_basis
from user_client.tables import encode_labels, encode_rows, table_from

PICTURE_ROWS = 6


def draw_picture(
    session: Session, collaboration_id: str, data: Any, shape: tuple[int, int], *, count: int = PICTURE_ROWS
) -> bytes:
    """Return a PNG of a few rows of the prepared table: original, projected, rebuilt under collusion.

    One row of each class comes first; rows that were left out are not shown. Where noise was added it
    is drawn anew, with the same deviation: the noise of what leaves is kept nowhere.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        The table that was prepared.
    shape : (height, width)
        Of a row as an image, its features line by line.

    Raises
    ------
    InputError
        If the shape does not have as many pixels as a row has features, or there is no row.
    NotPreparedError
        If nothing is prepared, or the secret basis is gone.
    """
    terms = stored_terms(session, collaboration_id)
    if min(shape) < 1 or shape[0] * shape[1] != terms.table_schema.width:
        pixels = " x ".join(map(str, shape))
        raise InputError(f"a row has {terms.table_schema.width} features, a picture of {pixels} does not fit")
    prepared = prepared_before(session, collaboration_id)
    basis = stored_basis(session, collaboration_id)
    if prepared is None or basis is None:
        raise NotPreparedError("a picture shows what is prepared, and there is nothing or its basis is gone")
    options = PrivacyOptions(**prepared.options)
    table = table_from(data)
    rows, labels = encode_rows(table, terms.table_schema), encode_labels(table, terms.table_schema)
    seen = with_noise(rows, options)
    leaves = np.flatnonzero(hidden_share(seen, basis) >= (options.drop_below or 0))
    if not len(leaves):
        raise InputError("there is no row to draw")
    chosen = leaves[_one_of_each_class_first(labels[leaves])[:count]]
    rep = seen[chosen] @ basis
    return png(side_by_side(rows[chosen], rep, rep @ basis.T, shape))


def _one_of_each_class_first(labels: Labels) -> np.ndarray[Any, np.dtype[np.int64]]:
    _, first = np.unique(labels, return_index=True)
    return np.concatenate([first, np.setdiff1d(np.arange(len(labels)), first)])
