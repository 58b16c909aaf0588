"""The papers' own figures, in percent, with the half width of their 95 % interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from scipy import stats

from benchmarks.accuracy.experiment import Cell

Figure = tuple[float, float]
Key = tuple[str, str, str | None, str, str, str]
"""Table, data set, condition, method, model, metric."""

_TABLE_III = """
MNIST         svm 94.50 0.00 90.50 0.10 94.50 0.00 94.52 0.01
MNIST         mlp 94.40 0.00 93.05 0.13 94.40 0.00 94.78 0.07
Fashion-MNIST svm 85.20 0.00 80.64 0.11 84.40 0.00 84.42 0.01
Fashion-MNIST mlp 84.40 0.00 83.22 0.16 84.50 0.00 84.41 0.13
"""
"""arXiv:2403.02780v5, Table III; 100 seeds: imakura, imakura-random, odc, odc-random."""

_TABLE_V_IMAGES = """
MNIST         svm - 96.0 0.1 66.0 0.9
MNIST         svm SameSpan-Orth 96.1 0.1 96.1 0.1 95.6 0.1
MNIST         svm SameSpan      96.1 0.1 96.1 0.1 88.8 0.2
MNIST         svm DiffSpan-Orth 95.1 0.1 94.7 0.1 94.9 0.1
MNIST         svm DiffSpan      94.9 0.1 94.7 0.1 86.5 0.3
MNIST         mlp - 95.1 0.1 59.7 1.4
MNIST         mlp SameSpan-Orth 96.0 0.1 95.9 0.1 95.9 0.1
MNIST         mlp SameSpan      95.9 0.1 95.8 0.1 92.6 0.2
MNIST         mlp DiffSpan-Orth 94.4 0.2 93.2 0.2 95.3 0.1
MNIST         mlp DiffSpan      94.9 0.1 93.2 0.2 91.2 0.2
Fashion-MNIST svm - 86.1 0.2 62.9 0.8
Fashion-MNIST svm SameSpan-Orth 85.4 0.2 85.4 0.2 83.7 0.3
Fashion-MNIST svm SameSpan      85.4 0.2 85.4 0.2 77.7 0.3
Fashion-MNIST svm DiffSpan-Orth 83.4 0.2 83.0 0.3 82.5 0.2
Fashion-MNIST svm DiffSpan      82.9 0.2 83.0 0.3 76.3 0.3
Fashion-MNIST mlp - 86.1 0.2 61.1 1.0
Fashion-MNIST mlp SameSpan-Orth 86.1 0.2 86.0 0.2 86.0 0.2
Fashion-MNIST mlp SameSpan      86.1 0.2 85.9 0.2 80.5 0.3
Fashion-MNIST mlp DiffSpan-Orth 81.8 0.3 81.5 0.3 84.3 0.2
Fashion-MNIST mlp DiffSpan      82.5 0.3 81.5 0.3 78.8 0.4
"""
"""Ibid., Table V; 100 seeds: central and local, then imakura, kawakami, odc."""

_TABLE_V_MOLECULES = """
AMES   roc_auc - 87.1 0.0
AMES   roc_auc SameSpan-Orth 86.2 0.4 82.4 0.3 88.6 0.1
AMES   roc_auc SameSpan      86.6 0.3 82.2 0.3 59.9 0.4
AMES   roc_auc DiffSpan-Orth 63.1 0.4 65.4 0.4 67.9 0.3
AMES   roc_auc DiffSpan      61.9 0.3 65.2 0.4 58.1 0.4
AMES   pr_auc  - 88.7 0.0
AMES   pr_auc  SameSpan-Orth 87.9 0.4 83.8 0.4 89.9 0.1
AMES   pr_auc  SameSpan      88.2 0.3 83.7 0.3 62.5 0.4
AMES   pr_auc  DiffSpan-Orth 66.9 0.4 69.1 0.4 71.5 0.3
AMES   pr_auc  DiffSpan      65.6 0.3 69.0 0.4 62.0 0.4
Tox21_SR-ARE roc_auc - 75.0 0.0
Tox21_SR-ARE roc_auc SameSpan-Orth 69.4 1.0 64.5 1.3 75.4 0.3
Tox21_SR-ARE roc_auc SameSpan      69.0 1.0 64.5 1.3 54.0 0.3
Tox21_SR-ARE roc_auc DiffSpan-Orth 57.4 0.3 58.3 0.3 61.0 0.3
Tox21_SR-ARE roc_auc DiffSpan      56.6 0.3 58.5 0.3 53.9 0.3
Tox21_SR-ARE pr_auc  - 42.2 0.0
Tox21_SR-ARE pr_auc  SameSpan-Orth 30.8 1.1 25.2 1.3 38.4 0.6
Tox21_SR-ARE pr_auc  SameSpan      30.4 1.1 25.2 1.2 16.7 0.2
Tox21_SR-ARE pr_auc  DiffSpan-Orth 19.4 0.2 20.2 0.2 22.6 0.3
Tox21_SR-ARE pr_auc  DiffSpan      18.9 0.2 20.3 0.2 17.3 0.2
CYP3A4 roc_auc - 87.2 0.0
CYP3A4 roc_auc SameSpan-Orth 84.8 0.2 82.9 0.2 86.2 0.1
CYP3A4 roc_auc SameSpan      84.7 0.2 82.9 0.2 59.2 0.4
CYP3A4 roc_auc DiffSpan-Orth 57.8 0.3 59.4 0.4 65.5 0.3
CYP3A4 roc_auc DiffSpan      58.3 0.3 59.1 0.4 58.2 0.3
CYP3A4 pr_auc  - 83.5 0.0
CYP3A4 pr_auc  SameSpan-Orth 80.6 0.3 78.1 0.3 82.1 0.1
CYP3A4 pr_auc  SameSpan      80.5 0.3 78.1 0.3 49.8 0.5
CYP3A4 pr_auc  DiffSpan-Orth 49.8 0.3 51.5 0.5 57.2 0.3
CYP3A4 pr_auc  DiffSpan      50.4 0.3 51.1 0.5 48.9 0.4
CYP2D6 roc_auc - 83.5 0.0
CYP2D6 roc_auc SameSpan-Orth 81.4 0.3 80.4 0.2 83.3 0.1
CYP2D6 roc_auc SameSpan      81.8 0.2 80.3 0.2 59.5 0.4
CYP2D6 roc_auc DiffSpan-Orth 62.4 0.4 64.6 0.4 65.8 0.2
CYP2D6 roc_auc DiffSpan      62.6 0.3 64.7 0.4 57.1 0.4
CYP2D6 pr_auc  - 63.5 0.0
CYP2D6 pr_auc  SameSpan-Orth 60.2 0.4 58.5 0.3 62.3 0.2
CYP2D6 pr_auc  SameSpan      60.6 0.4 58.3 0.3 24.2 0.3
CYP2D6 pr_auc  DiffSpan-Orth 27.5 0.5 30.3 0.5 31.2 0.3
CYP2D6 pr_auc  DiffSpan      27.9 0.4 30.4 0.5 23.0 0.3
"""
"""Ibid., Table V, by an MLP: central, then imakura, kawakami, odc."""

_TABLE_VI = """
Adult mlp - 84.9 0.2 74.2 1.0
Adult mlp SameSpan-Orth 84.9 0.3 84.8 0.3 85.0 0.2
Adult mlp SameSpan      84.9 0.3 84.8 0.2 83.0 0.3
Adult mlp DiffSpan-Orth 84.5 0.3 84.4 0.3 84.5 0.3
Adult mlp DiffSpan      84.3 0.3 84.4 0.3 82.4 0.3
"""
"""Ibid., Table VI; 100 seeds: central and local, then imakura, kawakami, odc. Each party has half of the
columns."""

_TABLE_II_V2 = """
AMES         89.2 0.0 79.3 1.2 79.1 1.2 87.4 0.3 86.9 0.6
CYP2D6       83.5 0.0 75.8 0.8 76.2 1.1 80.0 0.7 80.0 0.5
CYP3A4       88.0 0.0 70.2 2.0 74.6 2.6 81.4 0.4 80.2 0.9
Tox21_SR-ARE 75.6 0.0 65.9 0.7 67.8 0.9 66.9 0.6 67.5 0.4
"""
"""arXiv:2403.02780v2, Table II: mean and standard deviation of 10 runs, ROC-AUC by an MLP: central,
imakura, kawakami-scaled, odc, gopp."""
_RUNS_V2 = 10


def _figures() -> Iterator[tuple[Key, Figure]]:
    for name, model, *words in _words(_TABLE_III):
        for method, value in _paired("imakura imakura-random odc odc-random", words):
            yield ("III", name, "SameSpan-Orth", method, model, "accuracy"), value
    for table, text in (("V", _TABLE_V_IMAGES), ("VI", _TABLE_VI)):
        yield from _accuracies(table, text)
    for name, metric, condition, *words in _words(_TABLE_V_MOLECULES):
        methods = "central" if condition == "-" else "imakura kawakami odc"
        for method, value in _paired(methods, words):
            yield ("V", name, _or_none(condition), method, "mlp", metric), value
    narrower = float(stats.t.ppf(0.975, _RUNS_V2 - 1) / np.sqrt(_RUNS_V2))
    for name, *words in _words(_TABLE_II_V2):
        for method, (mean, deviation) in _paired("central imakura kawakami-scaled odc gopp", words):
            place = None if method == "central" else "DiffSpan-Orth"
            yield ("II, v2", name, place, method, "mlp", "roc_auc"), (mean, deviation * narrower)


def _accuracies(table: str, text: str) -> Iterator[tuple[Key, Figure]]:
    for name, model, condition, *words in _words(text):
        methods = "central local" if condition == "-" else "imakura kawakami odc"
        for method, value in _paired(methods, words):
            yield (table, name, _or_none(condition), method, model, "accuracy"), value


def _words(table: str) -> list[list[str]]:
    """Split the lines of a table into words; an underscore in a name stands for a space."""
    lines = [line.split() for line in table.strip().splitlines()]
    return [[name.replace("_", " "), *words] for name, *words in lines]


def _paired(methods: str, words: list[str]) -> Iterator[tuple[str, Figure]]:
    values = [float(word) for word in words]
    yield from zip(methods.split(), zip(values[::2], values[1::2], strict=True), strict=True)


def _or_none(condition: str) -> str | None:
    return None if condition == "-" else condition


FIGURES: Final[Mapping[Key, Figure]] = dict(_figures())


def figure(cell: Cell) -> Figure | None:
    """Return the paper's figure for a cell, None where no paper has one.

    The papers use a uniform anchor (version 2 a public one), and no scaling before the model.
    """
    setup = cell.setup
    if cell.one_scale or cell.centred or cell.anchor not in (None, "uniform", "public"):
        return None
    key = setup.table, setup.dataset, cell.condition, cell.method, cell.model, cell.metric
    return FIGURES.get(key)
