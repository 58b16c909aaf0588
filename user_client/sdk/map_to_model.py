"""What makes of our encoded rows the input of the model that came back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.messages import DownlinkManifest
from user_client.custody.round_directory import CHANGE_FILE, RoundDirectory
from user_client.errors import NotPreparedError
from user_client.sdk.sums import stored_feature_map
from user_client.sdk.uplink import stored_basis, stored_own_map


def map_of_rows(
    directory: RoundDirectory, manifest: DownlinkManifest
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return what makes of encoded rows, (n, m), the input of the model, (n, l)."""
    if not manifest.has_change_of_basis:
        return stored_feature_map(directory)
    to_model, own_map = map_to_model(directory, manifest), stored_own_map(directory)
    if own_map is not None:
        return lambda rows: np.asarray(own_map(rows) @ to_model)
    return lambda rows: np.asarray(rows @ to_model)


def map_to_model(directory: RoundDirectory, manifest: DownlinkManifest) -> NDArray[np.float64]:
    """Return ``F_i G_i``, (m, l) or behind a map of our own (D, l), or under sums the turn of the features.

    Raises
    ------
    NotPreparedError
        If what it is made of was erased.
    InputError
        If the model also takes random features, which are not linear in a row.
    """
    if not manifest.has_change_of_basis:
        features = stored_feature_map(directory)
        if not features.is_linear:
            raise InputError("the model takes random features of a row: it has no coefficients of columns")
        return features.turn
    basis = stored_basis(directory)
    if basis is None:
        raise NotPreparedError("the secret basis is not on this machine any more")
    spec = manifest.change_of_basis
    raw = directory.read(CHANGE_FILE)
    change = np.frombuffer(raw, dtype=np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape)
    return np.asarray(basis @ change.astype(np.float64))
