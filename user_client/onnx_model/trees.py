"""Forests as ONNX has them, on arrays: all trees go down one level at a time.

A node compares one number of a row with a threshold, both as 32-bit floats. Every node but the first of a
tree is named by one other, so that each way from a first node ends at a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.onnx_model.operators import Call, Room
from user_client.onnx_model.wire import RefusedModelError

_NODES: Final = frozenset(
    {
        "nodes_falsenodeids",
        "nodes_featureids",
        "nodes_hitrates",
        "nodes_missing_value_tracks_true",
        "nodes_modes",
        "nodes_nodeids",
        "nodes_treeids",
        "nodes_truenodeids",
        "nodes_values",
        "base_values",
        "post_transform",
    }
)
CLASSIFIER_ATTRIBUTES: Final = _NODES | {
    "class_ids",
    "class_nodeids",
    "class_treeids",
    "class_weights",
    "classlabels_int64s",
}
REGRESSOR_ATTRIBUTES: Final = _NODES | {
    "aggregate_function",
    "n_targets",
    "target_ids",
    "target_nodeids",
    "target_treeids",
    "target_weights",
}
_MODES: Final = (b"BRANCH_LEQ", b"LEAF")
_PLACES: Final = 2**17
"""Rows times trees that go down together: their places stay in the processor's cache."""
Places = NDArray[np.int32]


@dataclass(frozen=True)
class Forest:
    """Trees with their nodes numbered through.

    Attributes
    ----------
    first : (t,) ndarray of int32
    feature, threshold : (n,) ndarray of int32, of float32
    following : (2 n,) ndarray of int32
        For each node, where a row goes whose number is at most the threshold, and where any other goes; a
        leaf leads to itself.
    levels : int
    sums : (n, k) ndarray of float64
        What a leaf adds to each target, or (n, 1) if each leaf adds to one alone.
    target : (n,) ndarray of int64, optional
        Which one that is: a forest of many classes has a tree for each, and zeros for all others would fill
        the memory.
    base : (k,) ndarray of float64
    """

    first: Places
    feature: Places
    threshold: NDArray[np.float32]
    following: Places
    levels: int
    sums: NDArray[np.float64]
    target: NDArray[np.int64] | None
    base: NDArray[np.float64]

    @property
    def targets(self) -> int:
        return len(self.base)

    def scores(self, rows: NDArray[np.float32], room: Room) -> NDArray[np.float32]:
        """Return the sums over all trees, (n, targets)."""
        if self.feature.max(initial=0) >= rows.shape[1]:
            raise RefusedModelError(f"compares more numbers of a row than the {rows.shape[1]:,} it has")
        room.take((len(rows), min(len(self.first), _PLACES)))
        room.take((len(rows), self.targets))
        found, own = np.tile(self.base, (len(rows), 1)), np.arange(len(rows))
        at_once = max(1, _PLACES // max(1, len(rows)))
        flat, begins = rows.ravel(), (np.arange(len(rows), dtype=np.int64) * rows.shape[1])[:, None]
        for start in range(0, len(self.first), at_once):
            places = np.tile(self.first[start : start + at_once], (len(rows), 1))
            for _ in range(self.levels):
                beyond = flat.take(begins + self.feature.take(places)) > self.threshold.take(places)
                places = self.following.take(2 * places + beyond)
            for tree in places.T:
                if self.target is None:
                    found += self.sums.take(tree, axis=0)
                else:
                    found[own, self.target.take(tree)] += self.sums[:, 0].take(tree)
        return found.astype(np.float32)


def forest_of(call: Call, leaf: str, targets: int) -> Forest:
    """Return the forest of a node, read once; ``leaf`` begins the attributes of its leaves."""
    if "forest" not in call.memory:
        call.memory["forest"] = _forest(call, leaf, targets)
    found: Forest = call.memory["forest"]
    return found


def _forest(call: Call, leaf: str, targets: int) -> Forest:
    trees, numbers = (call.numbers(f"nodes_{name}", np.int64) for name in ("treeids", "nodeids"))
    names = _Names(trees, numbers)
    modes, is_leaf = call.attributes.get("nodes_modes"), np.zeros(0, np.bool_)
    if isinstance(modes, list) and set(modes) <= set(_MODES):
        is_leaf = np.array([mode == _MODES[1] for mode in modes], np.bool_)
    feature, threshold = call.numbers("nodes_featureids", np.int64), call.numbers("nodes_values")
    ways = [call.numbers(f"nodes_{name}nodeids", np.int64) for name in ("true", "false")]
    if {len(each) for each in (is_leaf, feature, threshold, *ways)} != {len(trees)}:
        raise RefusedModelError("has a forest with lists of several lengths, or with nodes of another kind")
    if feature.min(initial=0) < 0 or feature.max(initial=0) >= 2**31 or len(trees) >= 2**30:
        raise RefusedModelError("has a forest that compares no number of a row")
    own = np.arange(len(trees))
    following = np.stack([np.where(is_leaf, own, names.find(trees, way, ~is_leaf)) for way in ways], axis=1)
    named = np.bincount(following[~is_leaf].ravel(), minlength=len(trees))
    first = np.flatnonzero(named == 0)
    if named.max(initial=0) > 1 or len(first) != 1 + np.count_nonzero(np.diff(np.sort(trees))):
        raise RefusedModelError("has a forest whose nodes make no trees")
    sums, target = _sums(call, leaf, targets, names, is_leaf)
    return Forest(
        first=first.astype(np.int32),
        feature=np.where(is_leaf, 0, feature).astype(np.int32),
        threshold=threshold,
        following=following.astype(np.int32).ravel(),
        levels=_levels(first, following, is_leaf),
        sums=sums,
        target=target,
        base=_base(call, leaf, targets),
    )


class _Names:
    """Where each node stands, by the number of its tree and its own."""

    def __init__(self, trees: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        if len(trees) != len(numbers) or not len(trees):
            raise RefusedModelError("has a forest with lists of several lengths, or without nodes")
        keys = self._key(trees, numbers)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        if (np.diff(self._keys) == 0).any():
            raise RefusedModelError("has a forest with two nodes of one number")

    @staticmethod
    def _key(trees: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        both = np.concatenate([trees, numbers])
        if both.min(initial=0) < 0 or both.max(initial=0) >= 2**31:
            raise RefusedModelError("has a forest with nodes of a strange number")
        return trees * 2**31 + numbers

    def find(
        self, trees: NDArray[np.int64], numbers: NDArray[np.int64], needed: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return where nodes stand; those that are needed must be there."""
        keys = self._key(trees[needed], numbers[needed])
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if (self._keys[at] != keys).any():
            raise RefusedModelError("has a forest that names a node it does not have")
        found = np.zeros(len(trees), np.int64)
        found[needed] = self._order[at]
        return found


def _levels(first: NDArray[np.int64], following: NDArray[np.int64], is_leaf: NDArray[np.bool_]) -> int:
    """Return how many steps the longest way has; each node is named once, so that it ends."""
    levels, reached = 0, first
    while len(reached := reached[~is_leaf[reached]]):
        reached = following[reached].ravel()
        levels += 1
    return levels


def _sums(
    call: Call, leaf: str, targets: int, names: _Names, is_leaf: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    trees, nodes, ids = (call.numbers(f"{leaf}_{name}", np.int64) for name in ("treeids", "nodeids", "ids"))
    weights = call.numbers(f"{leaf}_weights")
    if {len(each) for each in (trees, nodes, ids)} != {len(weights)} or not len(weights):
        raise RefusedModelError("has a forest whose leaves have lists of several lengths")
    if _is_one_score(ids, leaf, targets):
        targets = 1
    if targets < 1 or ids.min() < 0 or ids.max() >= targets:
        raise RefusedModelError(f"has a forest with a leaf for another than the {targets:,} targets")
    places = names.find(trees, nodes, np.ones(len(trees), np.bool_))
    if not is_leaf[places].all():
        raise RefusedModelError("has a forest with a weight where no leaf is")
    if targets > 1 and np.bincount(places, minlength=len(is_leaf)).max() == 1:
        single, target = np.zeros((len(is_leaf), 1)), np.zeros(len(is_leaf), np.int64)
        single[places, 0], target[places] = weights, ids
        return single, target
    call.room.take((len(is_leaf), targets))
    sums = np.zeros((len(is_leaf), targets))
    np.add.at(sums, (places, ids), weights.astype(np.float64))
    return sums, None


def _base(call: Call, leaf: str, targets: int) -> NDArray[np.float64]:
    if _is_one_score(call.numbers(f"{leaf}_ids", np.int64), leaf, targets):
        targets = 1
    base = call.numbers("base_values").astype(np.float64)
    if len(base) not in (0, targets):
        raise RefusedModelError(f"has a forest that begins with {len(base):,} values for {targets:,} targets")
    return base if len(base) else np.zeros(targets)


def _is_one_score(ids: NDArray[np.int64], leaf: str, targets: int) -> bool:
    """Return whether there are two classes and the leaves have the score of the second alone, as number 0."""
    return leaf == "class" and targets == 2 and not ids.any()
