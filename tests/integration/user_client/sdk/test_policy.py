"""The desk attacks its owner first, and a policy stops what it must not find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from protocol.errors import UnreadableFileError
from protocol.terms import ExposureTerms
from tests.harness.in_process import Consortium
from user_client.custody.round_directory import PREPARED_FILE, RECEIPT_FILE
from user_client.errors import NotPreparedError, PolicyError
from user_client.sdk import Policy

CATEGORIES: dict[str, Any] = {
    "table_schema": {
        "columns": [{"kind": "numeric", "name": name, "low": 0, "high": 3} for name in ("x0", "x1", "x2")],
        "label_column": {"name": "y", "classes": ["no", "yes"]},
    }
}


def few_values(count: int = 400) -> dict[str, list[Any]]:
    """A table of three columns of four values each: 6 bits a row."""
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(0, 4, count) for name in ("x0", "x1", "x2")}
    labels = (columns["x0"] + columns["x1"] > 3).astype(int)
    return {
        **{name: list(map(int, values)) for name, values in columns.items()},
        "y": [["no", "yes"][k] for k in labels],
    }


@pytest.fixture
def undefended(consortium: Consortium) -> Consortium:
    return consortium.until_anchored(**CATEGORIES, terms_schema=2, latent_dim=2)


def test_an_uplink_without_dither_is_rebuilt_here_first(undefended: Consortium) -> None:
    prepared = undefended.hospital_round.prepare(undefended.table(1, **few_values()), attacks="quick")
    colluders = prepared.attacks[0]
    assert colluders.name == "closest vector"
    assert colluders.exact_rows == 1.0
    assert colluders.guessed_rows is not None
    assert colluders.guessed_rows < 0.2
    assert undefended.hospital_round.prepared == prepared


def test_attacks_that_were_left_out_are_made_up_for(undefended: Consortium) -> None:
    table = undefended.table(1, **few_values())
    assert undefended.hospital_round.prepare(table).attacks == ()
    assert undefended.hospital_round.prepare(table, attacks="quick").attacks[0].ran


def test_a_policy_stops_an_uplink_and_says_which_terms_would_pass(undefended: Consortium) -> None:
    Policy(max_exact_rows=0.2, min_hidden_bits=2).store(undefended.hospital.home)
    prepared = undefended.hospital_round.prepare(undefended.table(1, **few_values()))
    assert prepared.attacks  # the policy needs them, though nobody asked
    assert prepared.would_pass is not None
    assert "dither" in prepared.would_pass
    with pytest.raises(PolicyError, match=r"of a row's 6 bits must stay here.*100\.0% were") as caught:
        undefended.hospital_round.contribute()
    assert prepared.would_pass in caught.value.hint
    assert not (undefended.directory_of(undefended.hospital) / RECEIPT_FILE).exists()
    Policy().store(undefended.hospital.home)
    undefended.hospital_round.contribute()


def test_the_terms_that_would_pass_do_pass(consortium: Consortium) -> None:
    consortium.until_anchored(**CATEGORIES, terms_schema=2, latent_dim=2, rep_dtype="i1", dither=1.0)
    Policy(max_exact_rows=0.2, min_hidden_bits=2).store(consortium.hospital.home)
    prepared = consortium.hospital_round.prepare(consortium.table(1, **few_values()))
    assert prepared.would_pass is None
    assert consortium.hospital_round.policy_violations() == []
    consortium.hospital_round.contribute()


def test_a_column_that_never_leaves_is_no_part_of_terms_we_sign(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    for column in ("x1", "y"):  # the label is a column too
        Policy(never=(column, "patient_id")).store(consortium.hospital.home)
        with pytest.raises(PolicyError, match=f"the column {column} must never leave"):
            consortium.hospital_round.accept()


def test_a_date_that_never_leaves_is_the_beginning_of_no_duration(consortium: Consortium) -> None:
    columns = [
        {"kind": "range", "name": name, "low": 0, "high": 9, "centre": 4, "dates": "iso", "since": "born"}
        for name in ("x0", "x1", "x2")
    ]
    schema = {"columns": columns, "label_column": {"name": "y", "classes": ["no", "yes"]}}
    consortium.until_joined().publish(terms_schema=2, table_schema=schema)
    Policy(never=("born",)).store(consortium.hospital.home)
    with pytest.raises(PolicyError, match="the column born must never leave"):
        consortium.hospital_round.accept()


def test_attacks_that_could_not_be_tried_are_no_proof(
    undefended: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("user_client.privacy.lattices.available", lambda: False)
    monkeypatch.setattr("user_client.privacy.components.can_search", lambda: False)
    Policy(max_exact_rows=0.5, max_found_columns=1).store(undefended.hospital.home)
    undefended.hospital_round.prepare(undefended.table(1, **few_values()))
    with pytest.raises(
        PolicyError,
        match=r"closest vector could not be tried \(it may need the extra \[desk\]\); independent",
    ):
        undefended.hospital_round.contribute()


def test_a_policy_that_came_later_than_the_uplink_asks_for_the_attacks(undefended: Consortium) -> None:
    undefended.hospital_round.prepare(undefended.table(1, **few_values()))
    Policy(max_exact_rows=0.5).store(undefended.hospital.home)
    with pytest.raises(PolicyError, match="the attacks were not tried: run `odc prepare TABLE` again"):
        undefended.hospital_round.contribute()


def test_without_what_was_prepared_a_policy_allows_nothing(undefended: Consortium) -> None:
    undefended.hospital_round.prepare(undefended.table(1, **few_values()))
    Policy(never=("patient_id",)).store(undefended.hospital.home)
    (undefended.directory_of(undefended.hospital) / PREPARED_FILE).write_text("{}")
    with pytest.raises(NotPreparedError, match="cannot be read") as caught:
        undefended.hospital_round.contribute()
    assert "odc prepare" in caught.value.hint
    assert not (undefended.directory_of(undefended.hospital) / RECEIPT_FILE).exists()


@pytest.mark.parametrize(
    "content",
    [
        "max_exact_rows = nan",
        "max_exact_rows = 5",
        "max_found_columns = -1",
        "min_hidden_bits = -1",
        'min_hidden_bits = "many"',
        'never = "patient_id"',  # would be read as ten columns of one letter
        "at_most = 1",
        "never = [",
    ],
)
def test_a_policy_that_means_nothing_is_refused(consortium: Consortium, content: str) -> None:
    consortium.until_joined()
    consortium.hospital.home.policy_path.write_text(content)
    with pytest.raises(UnreadableFileError, match=r"policy\.toml"):
        Policy.of(consortium.hospital.home)


def test_terms_limit_what_may_be_found_as_our_policy_does(consortium: Consortium) -> None:
    limits = {"max_exact_rows": 0.2, "min_hidden_bits": 2.0}
    consortium.until_anchored(**CATEGORIES, terms_schema=2, latent_dim=2, exposure=limits)
    prepared = consortium.hospital_round.prepare(consortium.table(1, **few_values()))
    assert prepared.attacks  # the terms need them, though nobody asked
    with pytest.raises(PolicyError, match=r"2 of a row's 6 bits must stay here.*100\.0% were"):
        consortium.hospital_round.contribute()
    assert len(consortium.hospital_round.policy_violations()) == 2


@pytest.mark.parametrize(
    ("own", "asked", "both"),
    [
        ({}, {}, {}),
        ({"max_exact_rows": 0.1}, {"max_exact_rows": 0.2}, {"max_exact_rows": 0.1}),
        ({"max_found_columns": 4}, {"max_found_columns": 2}, {"max_found_columns": 2}),
        ({"min_hidden_bits": 4.0}, {"min_hidden_bits": 8.0}, {"min_hidden_bits": 8.0}),
        ({"min_hidden_bits": 4.0}, {"max_exact_rows": 0.0}, {"min_hidden_bits": 4.0, "max_exact_rows": 0.0}),
    ],
)
def test_of_two_limits_the_stricter_holds(
    own: dict[str, Any], asked: dict[str, Any], both: dict[str, Any]
) -> None:
    policy = Policy(never=("x",), **own)
    assert policy.and_of(ExposureTerms(**asked)) == Policy(never=("x",), **both)
    assert policy.and_of(None) == policy
