"""Of more rows than a model is trained on, a part is drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_server.compute.training_rows import training_parts
from tests.harness.peaks import peak_bytes

ROWS, WIDTH, SHARE, SEED = 2**21, 8, 0.1, 7
LABELS = np.random.default_rng(0).choice(3, ROWS, p=[0.5, 0.3, 0.2]).astype(np.uint8)


def drawn(labels: NDArray[Any] = LABELS, task: str = "classes") -> NDArray[Any] | None:
    """Return the numbers of the rows that train, of one party with more of them than may."""
    array = SimpleNamespace(shape=(ROWS, WIDTH))
    party = SimpleNamespace(party="a", rep=array, labels=SimpleNamespace(open=lambda _: labels))
    most = int(SHARE * ROWS) * WIDTH * 4
    alignment = SimpleNamespace(seed=SEED)
    spec: Any = SimpleNamespace(
        parties=[party],
        most_training_bytes=most,
        alignment=alignment,
        model_privacy=None,
        latent_dim=WIDTH,
        label=SimpleNamespace(task=task),
    )
    return training_parts(spec, blobs=None, left_out=())[0].numbers  # type: ignore[arg-type]  # the labels need none


def test_a_share_of_every_class_trains() -> None:
    rng, share = np.random.default_rng(SEED), int(SHARE * ROWS) / ROWS
    classes = [np.flatnonzero(each == LABELS) for each in range(3)]
    sizes = [int(np.ceil(share * len(rows))) for rows in classes]
    chosen = [
        rows[np.sort(rng.choice(len(rows), size, replace=False, shuffle=False))]
        for rows, size in zip(classes, sizes, strict=True)
    ]
    np.testing.assert_array_equal(drawn(), np.sort(np.concatenate(chosen)))


def test_the_draw_takes_few_bytes_for_each_row() -> None:
    assert peak_bytes(drawn) < 8 * ROWS


def test_no_label_is_lost_in_the_draw() -> None:
    labels = np.full(ROWS, 2, np.uint8)
    labels[5], labels[7] = 3, 0  # the only one with the first label, and the only one without the second
    found = drawn(labels, "multilabel")
    assert found is not None
    assert {5, 7} <= {*found.tolist()}
    assert abs(len(found) - int(SHARE * ROWS)) <= 2
    assert found.tolist() == sorted({*found.tolist()})
