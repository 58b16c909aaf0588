"""Whole rounds with the analyst's records in a database of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.consortium import Consortium, consortium, rows
from tests.harness.postgresql import PASSWORD, PostgreSql, analysts_postgresql


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgreSql]:
    with analysts_postgresql() as made:
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, postgres: PostgreSql) -> Iterator[Consortium]:
    with (
        postgres.database() as name,
        consortium(
            tmp_path_factory.mktemp("stores"),
            "lead-hospital",
            "hospital-b",
            "hospital-c",
            ODC_ANALYST_DATABASE_URL=postgres.records_url(name),
        ) as found,
    ):
        yield found


def test_a_round_is_played_from_terms_to_predictions(made: Consortium) -> None:
    found = made.anchored(latent_dim=4)
    made.contribute_all(found, 80)
    made.receive_all(found)
    made.wait_for_judgement(found)
    assert not (made.analyst.data_dir / "odc.sqlite").exists()
    assert "formula (3)" in made.analyst.run("collaboration", "report", found)
    assert PASSWORD not in made.log()


def test_a_restart_of_the_database_loses_nothing_and_ends_no_round(
    made: Consortium, postgres: PostgreSql
) -> None:
    found = made.anchored(latent_dim=4)
    first, *others = made.names
    receipt = made.contribute(first, found, rows(0, 80))
    postgres.stop()
    postgres.start()
    for seed, name in enumerate(others):
        made.contribute(name, found, rows(seed, 80))
    made.receive_all(found)
    sent = made.sessions[first].round(found).contribute()
    assert sent == receipt
