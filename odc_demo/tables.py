"""The demo's tables: scikit-learn's breast cancer data, or the user's own file with a site column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from odc_demo.corrections import DemoTask, corrected_draft, task_of
from protocol.errors import InputError
from user_client.errors import MissingColumnError
from user_client.tables import Dialect, Source, parse_dialect, read_table

HOLD_OUT = 0.3
SHARES = {
    "lead-hospital": 0.36,
    "hospital-b": 0.25,
    "hospital-c": 0.18,
    "hospital-d": 0.13,
    "hospital-e": 0.08,
}
"""Share of the bundled rows per hospital; uneven, the smallest hospital has about thirty rows."""


@dataclass(frozen=True)
class DemoTables:
    """Training rows by hospital, the lead first, which drafts the terms from its own; the common hold-out.

    Attributes
    ----------
    corrections : tuple of str
        Further options of the draft: the label is a number, texts stand for empty fields, or the tables of
        the others have what the lead's has not.
    """

    name: str
    label: str
    by_hospital: dict[str, pa.Table]
    hold_out: pa.Table
    exclude: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()


def breast_cancer() -> DemoTables:
    """Return the bundled table, 569 rows of 30 features, split at random by `SHARES`."""
    data = load_breast_cancer()
    names = [name.replace(" ", "_") for name in data.feature_names]
    columns = {name: data.data[:, index] for index, name in enumerate(names)}
    diagnosis = np.array(data.target_names)[data.target]
    table = pa.table({**columns, "diagnosis": diagnosis})
    train, test = train_test_split(
        np.arange(len(diagnosis)), test_size=HOLD_OUT, stratify=diagnosis, random_state=0
    )
    order = np.random.default_rng(0).permutation(train)
    cuts = (np.cumsum(list(SHARES.values()))[:-1] * len(order)).astype(int)
    parts = {
        name: table.take(pa.array(np.sort(rows)))
        for name, rows in zip(SHARES, np.split(order, cuts), strict=True)
    }
    return DemoTables("breast cancer (scikit-learn)", "diagnosis", parts, table.take(test))


def source_of(path: Path, csv: str | None = None) -> Source:
    """Return the user's table; what ``csv`` does not say of how a CSV file is written is guessed.

    Parameters
    ----------
    csv : str, optional
        How the file is written, as ``odc --csv`` has it.
    """
    return Source(path).guessed(Dialect() if csv is None else parse_dialect(csv))


def own_table(
    source: Source,
    label: str,
    site: str,
    exclude: tuple[str, ...],
    *,
    task: DemoTask | None = None,
    missing: Sequence[str] = (),
) -> DemoTables:
    """Return the user's table, split by its site column; the largest site leads.

    Parameters
    ----------
    task : {"classes", "number"}, optional
        What the label is; by default what `task_of` takes it for.
    missing : sequence of str, optional
        Further texts that stand for an empty field.
    """
    table = read_table(source)
    for column in (label, site):
        if column not in table.column_names:
            raise MissingColumnError(column)
    sites = np.array([str(value) for value in table.column(site).to_pylist()])
    counts = Counter(sites.tolist())
    if len(counts) < 2:
        raise InputError(f"column '{site}' names fewer than two sites")
    task = task or task_of(table, label, missing)
    labels = [str(value) for value in table.column(label).to_pylist()] if task == "classes" else None
    train, test = _split(sites, labels)
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    parts = {_party(name): table.take(np.sort(train[sites[train] == name])) for name in ordered}
    excluded = (site, *exclude)
    corrections = corrected_draft(parts, label, excluded, task, missing).options()
    return DemoTables(source.path.name, label, parts, table.take(np.sort(test)), excluded, corrections)


def _split(sites: NDArray[Any], labels: Sequence[str] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows to train on and the common hold-out, which has its share of every class of every site.

    A class that a site has once is in neither. Where there are too many classes and sites for so few rows,
    the hold-out has its share of every site, and where these are too many, it is drawn from all rows.
    """
    everything, by_site = np.arange(len(sites)), sites.tolist()
    by_class = (
        [] if labels is None else [[f"{at}|{found}" for at, found in zip(by_site, labels, strict=True)]]
    )
    for groups in (*by_class, by_site):
        counts = Counter(groups)
        keep = everything[[counts[group] > 1 for group in groups]]
        strata = np.array(groups)[keep]
        if 0 < len(np.unique(strata)) <= HOLD_OUT * len(keep):
            train, test = train_test_split(keep, test_size=HOLD_OUT, stratify=strata, random_state=0)
            return train, test
    train, test = train_test_split(everything, test_size=HOLD_OUT, random_state=0)
    return train, test


def _party(site: str) -> str:
    """Return a site's name as a party's name, a DNS label."""
    return "hospital-" + (re.sub(r"[^a-z0-9]+", "-", site.lower()).strip("-")[:50] or "unnamed")


def write_csv(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.csv.write_csv(table, path)
    return path
