"""Whole rounds with the analyst's records in PostgreSQL, and its arrays in a directory or in S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.consortium import Consortium, consortium, rows
from tests.harness.postgresql import PASSWORD, PostgreSql, analysts_postgresql
from tests.harness.s3 import arrays_in_s3


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgreSql]:
    with analysts_postgresql() as made:
        yield made


@pytest.fixture(scope="module", params=["directory", "s3"])
def blobs(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """What the analyst's environment says of its arrays."""
    if request.param == "directory":
        yield {}
        return
    with arrays_in_s3() as environment:
        yield environment


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgreSql, blobs: dict[str, str]
) -> Iterator[Consortium]:
    with (
        pytest.MonkeyPatch.context() as patch,
        postgres.database() as name,
        consortium(
            tmp_path_factory.mktemp("stores"),
            "lead-hospital",
            "hospital-b",
            "hospital-c",
            ODC_ANALYST_DATABASE_URL=postgres.records_url(name),
            **blobs,
        ) as found,
    ):
        for variable, value in blobs.items():  # for the operator's commands in this process
            patch.setenv(variable, value)
        yield found


def test_a_round_is_played_from_terms_to_predictions(made: Consortium) -> None:
    found = made.anchored(latent_dim=4)
    made.contribute_all(found, 80)
    made.receive_all(found)
    made.wait_for_judgement(found)
    assert not (made.analyst.data_dir / "odc.sqlite").exists()
    assert "formula (3)" in made.analyst.run("collaboration", "report", found)
    if "ODC_ANALYST_BLOB_URL" in made.analyst.settings:
        files = [path for path in (made.analyst.data_dir / "blobs").rglob("*") if path.is_file()]
        assert files == []
    for secret in (PASSWORD, made.analyst.settings.get("AWS_SECRET_ACCESS_KEY", PASSWORD)):
        assert secret not in made.log()


def test_nothing_is_left_of_the_arrays_of_a_closed_round(made: Consortium) -> None:
    found = made.anchored(latent_dim=4)
    made.contribute_all(found, 80)
    made.receive_all(found)
    made.wait_for_judgement(found)
    made.analyst.run("collaboration", "close", found)
    with made.operator() as opened:
        assert not [key for key in opened.blobs.whole_keys() if key.startswith(found)]


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
