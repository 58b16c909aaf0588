"""The anchor A: the same secret matrix at every institution, unknown to the analyst."""

from __future__ import annotations

from user_client.secret.numbers import ByteSource, Matrix64, gaussian, haar, uniform

ANCHOR_KINDS = ("haar", "gaussian", "uniform")
"""Those that come from a seed; a public anchor is a table of the lead's."""


def expand_anchor(kind: str, source: ByteSource, *, rows: int, features: int) -> Matrix64:
    """Return the anchor of a kind from its key stream.

    Parameters
    ----------
    kind : {"haar", "gaussian", "uniform"}
        "haar" is a random orthogonal matrix, so that ``A.T @ A = I`` and nothing but the bases up to
        one common unknown rotation follows from ``A @ F_i``; "gaussian" has standard normal entries
        (Nosaka and Yoshise, "Data collaboration analysis over matrix manifolds", section 4); "uniform"
        is the ODC paper's, entries in [0, 1) (arXiv:2403.02780v5, section V).
    source : callable
        Returns the next bytes of the key stream.
    rows, features : int
        a and m; equal for "haar".

    Returns
    -------
    (rows, features) ndarray of float64

    Raises
    ------
    ValueError
        If the kind is unknown, or a Haar anchor is not square.
    """
    if kind == "gaussian":
        return gaussian(source, rows * features).reshape(rows, features)
    if kind == "uniform":
        return uniform(source, rows * features).reshape(rows, features)
    if kind != "haar":
        raise ValueError(f"unknown anchor kind {kind!r}")
    if rows != features:
        raise ValueError(f"a haar anchor is square, got {rows} x {features}")
    return haar(source, features)
