"""Institutions and analysts of the version before play rounds with those of this one, by their commands.

Wire and terms are versioned apart from the software: an upgrade of one side must stop nobody. Terms may use
what only the present version knows; then an earlier one refuses them in words.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from odc_demo.actors import Analyst, CommandError, Institution, join_all
from tests.harness.consortium import PASSPHRASE, rows
from tests.harness.earlier import earlier_version

TODAY: tuple[str, ...] = ()
LEAD, SECOND, THIRD = "lead-hospital", "hospital-b", "hospital-c"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return earlier_version(tmp_path_factory.mktemp("earlier"))


@dataclass
class Played:
    """A consortium whose roles run the code of one version or the other."""

    analyst: Analyst
    institutions: list[Institution]

    def publish(self, table: Path, *, without: str = "") -> str:
        """Let the lead draft the terms, and the operator publish them; return the collaboration's id.

        ``without`` is a field that is deleted from the draft.
        """
        lead = self.institutions[0]
        draft = lead.home / "terms.toml"
        parties = [word for one in self.institutions for word in ("--party", one.name)]
        lead.odc("terms", "draft", str(table), "--label", "label", *parties, "--out", str(draft), "--force")
        if without:
            kept, removed = re.subn(rf"(?m)^{without} = .*\n", "", draft.read_text())
            assert removed == 1
            draft.write_text(kept)
        found = re.search(r"\b[0-9a-f]{32}\b", self.analyst.run("collaboration", "create", str(draft)))
        assert found is not None
        return found[0]

    def play(self, collaboration_id: str) -> None:
        """Take published terms to predictions at every institution."""
        here = ("--collaboration", collaboration_id)
        for one in self.institutions:
            one.odc("terms", "accept", *here)
        self.institutions[0].odc("anchor", "create", *here)
        for seed, one in enumerate(self.institutions):
            table = _written(one.home / "rows.csv", seed, 120)
            one.odc("prepare", str(table), *here)
            asks = ("--yes",) if not one.prefix else ()  # the earlier version sends what was prepared
            one.odc("contribute", *here, *asks)
        for one in self.institutions:
            one.odc("receive", "--wait", "120", *here)

    def right_at(self, one: Institution) -> float:
        """Return the share of fresh rows that an institution predicts rightly."""
        fresh = _written(one.home / "fresh.csv", 99, 200)
        one.odc("predict", str(fresh), "--out", str(one.home / "predictions.csv"))
        with (one.home / "predictions.csv").open() as file:
            predicted = [row["prediction"] for row in csv.DictReader(file)]
        labels: Any = rows(99, 200).column("label").to_pylist()
        return sum(map(str.__eq__, predicted, labels)) / len(labels)


def _written(path: Path, seed: int, count: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.csv.write_csv(rows(seed, count), path)
    return path


@contextmanager
def consortium(
    directory: Path, analyst: tuple[str, ...], institutions: dict[str, tuple[str, ...]]
) -> Iterator[Played]:
    """Found a consortium, each role with the version that its prefix runs."""
    made = Played(
        Analyst(directory / "analyst", settings={"ODC_ANALYST_POLL_S": "0.1"}, prefix=analyst),
        [Institution(name, directory / name, prefix) for name, prefix in institutions.items()],
    )
    passphrase = directory / "passphrase"
    passphrase.write_text(PASSPHRASE)
    lead, *others = made.institutions
    try:
        _found(made.analyst, lead, passphrase)
        join_all(lead, others, passphrase)
        yield made
    finally:
        made.analyst.stop()


def _found(analyst: Analyst, lead: Institution, passphrase: Path) -> None:
    """Create root, lead and the analyst's certificate by commands that both versions have."""
    secret = ("--passphrase-file", str(passphrase))
    lead.odc("consortium", "create", "Two versions", "--analyst", analyst.url, "--party", LEAD, *secret)
    analyst.run("join", str(lead.home / "analyst.invitation.json"))
    request = analyst.data_dir / "analyst-request.odc"
    lead.odc("consortium", "approve", "--request", str(request), "--yes", *secret)
    analyst.run("install", str(lead.home / "analyst-certificate.pem"))
    analyst.start()


def test_institutions_of_the_version_before_play_with_the_analyst_of_this_one(
    earlier: tuple[str, ...], tmp_path: Path
) -> None:
    versions = {LEAD: earlier, SECOND: earlier, THIRD: TODAY}
    with consortium(tmp_path, TODAY, versions) as made:
        found = made.publish(_written(tmp_path / "draft.csv", 7, 200))
        made.play(found)
        assert min(map(made.right_at, made.institutions)) > 0.85


def test_institutions_of_this_version_play_with_the_analyst_of_the_version_before(
    earlier: tuple[str, ...], tmp_path: Path
) -> None:
    versions = {LEAD: TODAY, SECOND: earlier, THIRD: TODAY}
    with consortium(tmp_path, earlier, versions) as made:
        table = _written(tmp_path / "draft.csv", 7, 200)
        with pytest.raises(CommandError, match="analyst_key"):  # in words, and by name
            made.publish(table)
        found = made.publish(table, without="analyst_key")
        made.play(found)
        assert min(map(made.right_at, made.institutions)) > 0.85


def test_an_analyst_is_upgraded_in_the_middle_of_a_round(earlier: tuple[str, ...], tmp_path: Path) -> None:
    with consortium(tmp_path, earlier, {LEAD: earlier, SECOND: TODAY}) as made:
        found = made.publish(_written(tmp_path / "draft.csv", 7, 200))
        here = ("--collaboration", found)
        for one in made.institutions:
            one.odc("terms", "accept", *here)
        made.institutions[0].odc("anchor", "create", *here)
        lead, second = made.institutions
        lead.odc("prepare", str(_written(lead.home / "rows.csv", 1, 120)), *here)
        lead.odc("contribute", *here)
        made.analyst.stop()
        made.analyst.prefix = TODAY
        made.analyst.start()
        second.odc("prepare", str(_written(second.home / "rows.csv", 2, 120)), *here)
        second.odc("contribute", "--yes", *here)
        lead.prefix = TODAY  # an institution may follow at any time
        for one in made.institutions:
            one.odc("receive", "--wait", "120", *here)
        assert min(map(made.right_at, made.institutions)) > 0.85


def test_the_version_before_does_not_know_upgraded_records_and_is_restored(
    earlier: tuple[str, ...], tmp_path: Path
) -> None:
    """docs/deploy-vm.md says what a person reads then, and what to do."""
    with consortium(tmp_path, earlier, {LEAD: TODAY}) as made:
        analyst = made.analyst
        analyst.run("backup", str(tmp_path / "before"))
        analyst.stop()
        analyst.prefix = TODAY
        analyst.start()  # upgrades the tables
        analyst.stop()
        analyst.prefix = earlier
        with pytest.raises(CommandError, match="unexpected CommandError"):
            analyst.run("collaboration", "list")
        analyst.launch()
        assert analyst.server is not None
        assert analyst.server.wait(60) == 1
        assert "Can't locate revision identified by" in analyst.log_path.read_text()
        analyst.data_dir.rename(tmp_path / "failed")
        analyst.data_dir.mkdir(mode=0o700)
        analyst.run("restore", str(tmp_path / "before"))
        assert "no collaborations yet" in analyst.run("collaboration", "list")


def test_a_backup_of_the_version_before_is_restored_and_upgraded(
    earlier: tuple[str, ...], tmp_path: Path
) -> None:
    with consortium(tmp_path, earlier, {LEAD: TODAY}) as made:
        analyst = made.analyst
        analyst.run("backup", str(tmp_path / "before"))
        analyst.stop()
        analyst.data_dir.rename(tmp_path / "lost")
        analyst.data_dir.mkdir(mode=0o700)
        analyst.prefix = TODAY
        analyst.run("restore", str(tmp_path / "before"))
        analyst.start()
        assert "no collaborations yet" in analyst.run("collaboration", "list")
