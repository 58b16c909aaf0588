from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks import judging
from benchmarks.judging import Case, Judged, Split, Table, deal, load, play, summary
from benchmarks.report import Options


@pytest.mark.parametrize("split", ["iid", "dirichlet 0.3", "95 % of one class", "one class"])
def test_every_row_that_is_sent_is_sent_once(split: Split) -> None:
    table = load("digits", None)
    sent = np.arange(900)
    parts = deal(Case("digits", split, 4, 20, 1), table, sent, np.random.default_rng(0))
    assert sorted(np.concatenate(parts)) == pytest.approx(sent, abs=0) or split == "dirichlet 0.3"
    shares = [table.labels[part].mean() for part in parts]
    if split == "one class":
        assert shares == [0, 1, 0, 1]
    if split == "95 % of one class":
        assert max(shares[0], shares[2]) < 0.1
        assert min(shares[1], shares[3]) > 0.9


def test_hospitals_keep_their_rows_and_a_row_may_come_three_times() -> None:
    digits = load("digits", None)
    table = Table(digits.rows, digits.labels, (np.arange(len(digits.rows)) % 3).astype(np.int64))
    sent, rng = np.arange(300), np.random.default_rng(0)
    found = deal(Case("digits", "hospitals", 3, 20, 1), table, sent, rng)
    assert [len(set(table.sites[part])) for part in found] == [1, 1, 1]
    thrice = deal(Case("digits", "every row three times", 4, 20, 1), table, sent, rng)
    assert sorted(np.concatenate(thrice)) == sorted(np.repeat(np.arange(150), 3))


def test_a_round_is_judged_near_its_truth_and_one_class_per_party_is_not() -> None:
    case = Case("breast cancer", "iid", 4, 15, 1)
    found = play(case, load(case.table, None), 0)
    assert found.within is not None
    assert found.has_headline
    assert abs(found.within[0] - found.truth) < 0.03
    apart = play(dataclasses.replace(case, split="one class"), load(case.table, None), 0)
    assert (apart.within, apart.across, apart.has_headline) == (None, None, False)


def test_a_summary_counts_the_errors_of_headlines_only() -> None:
    rounds = [
        Judged(0.8, 0.01, 0.9, (0.83, 0.8, 0.86), None, has_headline=True),
        Judged(0.8, 0.01, 0.9, (0.79, 0.7, 0.88), (0.7, 0.6, 0.8), has_headline=True),
        Judged(0.8, 0.01, 0.9, (0.5, 0.1, 0.6), None, has_headline=False),
        Judged(0.8, 0.01, 0.9, None, None, has_headline=False),
    ]
    row = summary(Case("digits", "iid", 4, 20, 4), rounds)
    assert row["headlines"] == 2
    assert row["headline_error"] == pytest.approx(1)
    assert row["headline_absolute_error"] == pytest.approx(2)
    assert row["within_covers"] == pytest.approx(200 / 3)
    assert row["across"] == pytest.approx(70)


def test_without_the_real_data_only_bundled_tables_are_measured() -> None:
    found = judging.cases(Options(full=False, data=None))
    assert {case.table for case in found} == {"digits", "breast cancer"}
    with pytest.raises(ValueError, match="--data DIR"):
        load("pima", None)
