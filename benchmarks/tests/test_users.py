from __future__ import annotations

import numpy as np
import pytest

from benchmarks import data
from benchmarks.accuracy import markdown, users
from benchmarks.accuracy.users import Point, averaged, points, rows, scores


def test_the_points_are_those_of_the_figures() -> None:
    full = points(full=True)
    assert {point.users for point in full if point.figure == "3"} == set(range(1, 11))
    assert {point.rows for point in full if point.figure == "4"} == set(range(100, 1001, 100))
    assert set(points(full=False)) < set(full)


def test_with_one_user_averaging_is_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "EPOCHS", 3)
    dataset = data.digits(0)
    part = dataset.train[:100], dataset.train_labels[:100]
    test, truth = dataset.test, dataset.test_labels
    once, thrice = (
        float(np.mean(averaged([part], 10, epochs, 0).predict(test.astype(np.float32)) == truth))
        for epochs in (1, 3)
    )
    alone = users._trained(part, 10, 0).predict(test.astype(np.float32))
    assert abs(once - float(np.mean(alone == truth))) < 0.15
    assert thrice > once


def test_the_average_of_users_without_training_is_what_they_began_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(users, "EPOCHS", 1)
    dataset = data.digits(0)
    parts = [(dataset.train[i : i + 40], dataset.train_labels[i : i + 40]) for i in (0, 40)]
    together, first = averaged(parts, 10, 0, 0), averaged(parts[:1], 10, 0, 0)
    np.testing.assert_allclose(together.coefs_[0], first.coefs_[0], atol=1e-6)
    apart = averaged(parts, 10, 1, 0)
    assert np.abs(apart.coefs_[0] - first.coefs_[0]).max() > 1e-4


def test_more_users_are_worth_more_in_every_way() -> None:
    dataset = data.digits(0)
    few, many = (scores(dataset, Point("3", "digits", number, 60), 0) for number in (1, 6))
    assert few["central"] == few["individual"]
    assert abs(many["individual"] - few["individual"]) < 10
    for way in ("central", "DC", "isotropic", "FedAvg 3E32B"):
        assert many[way] > many["individual"]


def test_a_row_has_the_mean_of_the_seeds() -> None:
    (row,) = rows(Point("4", "MNIST", 5, 300), [{"DC": 90.0}, {"DC": 92.0}])
    assert (row["table"], row["mean"], row["seeds"]) == ("users, Figure 4", 91.0, 2)
    assert "| users, Figure 4 | MNIST | 5 | 300 | 91.0" in markdown.tables([row])
