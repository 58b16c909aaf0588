"""Blind search for 0/1 features: in the uplink of one member, and in the rows of all members together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.data import Labels, Matrix
from user_client.privacy.components import BlindFindings, search_blindly, shares_by_class, two_valued
from user_client.privacy.held import Uplink, leading_axes

BUDGET_S: Final = 600.0
"""Of processor time: far more than any search takes, so that none is cut off unnoticed."""


def one_member(
    uplink: Uplink,
    rows: Matrix,
    others: Matrix,
    others_labels: Labels,
    *,
    classes: int,
    rng: np.random.Generator,
) -> BlindFindings | None:
    """Attack one uplink as `odc prepare` does, with names from the shares among other rows.

    Parameters
    ----------
    rows : (n, m) ndarray
        Encoded rows of the member, for scoring.
    others : (k, m) ndarray
        Rows of which somebody has published the shares of each 0/1 feature in each class.
    """
    features, _ = two_valued(rows)
    published = shares_by_class(others[:, features] == rows[:, features].max(axis=0), others_labels, classes)
    return search_blindly(uplink.rep, rows, uplink.labels, published, rng=rng, budget_s=BUDGET_S)


def all_members(
    uplinks: Sequence[Uplink], rows: Sequence[Matrix], *, classes: int, rng: np.random.Generator
) -> BlindFindings | None:
    """Attack the rows of all members together, with names from the cohort's own published shares.

    ``X~_i A_i.T`` are in one frame; its l leading axes are what nearly all bases contain. It is the same as
    ``X~_i G_i`` up to what these cut off, and needs no choice of a target.
    """
    sent = np.vstack([one.rep @ one.anchor_rep.T for one in uplinks])
    together = sent @ leading_axes(sent, uplinks[0].rep.shape[1])
    labels, everything = np.concatenate([one.labels for one in uplinks]), np.vstack(list(rows))
    published = shares_by_class(two_valued(everything)[1], labels, classes)
    return search_blindly(together, everything, labels, published, rng=rng, budget_s=BUDGET_S)
