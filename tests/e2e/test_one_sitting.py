"""A round in one command at each institution, as real processes that wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.csv
import pytest

from tests.harness.consortium import WAIT_S, Consortium, consortium, rows
from user_client.sdk import Session

NAMES = ("lead-hospital", "hospital-b", "hospital-c")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("sitting"), *NAMES) as found:
        yield found


def test_each_institution_needs_two_commands_from_the_terms_to_predictions(made: Consortium) -> None:
    for seed, name in enumerate(NAMES):
        pyarrow.csv.write_csv(rows(seed, 60), made.sessions[name].home.path / "rows.csv")
    words = ("round", "rows.csv", "--yes", "--wait", str(WAIT_S))
    running = [(one, one.start(*words)) for one in map(made.institution, NAMES)]
    found = made.publish()
    ended = [one.finish(words, process) for one, process in running]
    assert {each["collaboration_id"] for each in ended} == {found}
    assert all(each["next"].startswith("odc predict TABLE") for each in ended)
    predicted = made.run_all(NAMES, "predict", "rows.csv")
    assert [each["rows"] for each in predicted] == [60, 60, 60]
    for name in NAMES[1:]:  # joining included, as docs/metering.md counts it
        with Session(made.sessions[name].home.path) as session:
            explained = session.round(found).explain_bytes()
            assert explained is not None
            assert explained.total.control_bytes <= 32_768
