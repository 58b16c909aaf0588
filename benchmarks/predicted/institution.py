"""What preparing and sending one uplink takes, by the commands of users against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from analyst_server.installation import open_analyst
from analyst_server.services import end
from analyst_server.services.work import Size
from analyst_server.settings import Settings
from benchmarks import memory
from benchmarks.pair import joined_pair
from odc_demo.actors import Analyst, Institution
from odc_demo.measured import Cost

DRAFTED_ROWS: Final = 2000
"""Of the table that the terms are drafted from."""


@dataclass(frozen=True)
class Sent:
    """What one uplink took: its institution's commands, and the server's processor time."""

    size: Size
    prepare: Cost
    contribute: Cost
    server_s: float


@dataclass(frozen=True)
class Scene:
    """A consortium of two whose analyst serves."""

    analyst: Analyst
    lead: Institution
    hospital: Institution
    folder: Path

    def send(self, rows: int, features: int, latent_dim: int, model: str) -> Sent:
        """Play a round up to the hospital's uplink, and cancel it.

        The lead sends nothing, so that the round is never computed.
        """
        drafted, table = self.folder / "drafted.csv", self.folder / "table.csv"
        memory.write_table(drafted, DRAFTED_ROWS, seed=0, columns=features)
        memory.write_table(table, rows, seed=1, columns=features)
        parties = [word for each in (self.lead, self.hospital) for word in ("--party", each.name)]
        options = ("--label", "label", "--model", model, "--latent-dim", str(latent_dim), *parties, "--force")
        self.lead.odc("terms", "draft", str(drafted), *options, "--out", "terms.toml")
        created = json.loads(
            self.analyst.run("collaboration", "create", str(self.lead.home / "terms.toml"), "--json")
        )
        chosen = ("--collaboration", created["collaboration_id"])
        for each in (self.lead, self.hospital):
            each.odc("terms", "accept", *chosen)
        self.lead.odc("anchor", "create", *chosen)
        prepare = memory.run(self.hospital, "prepare", str(table), "--no-attacks", "--hold-out", "0", *chosen)
        before = self._server_s()
        contribute = memory.run(self.hospital, "contribute", "--yes", "--accept-signal-loss", *chosen)
        server_s = self._server_s() - before
        self._cancel(created["collaboration_id"])
        return Sent(Size(2, rows, features, latent_dim, features), prepare, contribute, server_s)

    def _server_s(self) -> float:
        if self.analyst.server is None:
            raise RuntimeError("the server does not run")
        spent = psutil.Process(self.analyst.server.pid).cpu_times()
        return float(spent.user + spent.system)

    def _cancel(self, collaboration_id: str) -> None:
        opened = open_analyst(Settings(data_dir=self.analyst.data_dir))
        try:
            end.cancel(opened, collaboration_id)
        finally:
            opened.records.dispose()


@contextmanager
def consortium(folder: Path) -> Iterator[Scene]:
    """Yield a consortium in which everybody has joined, while its server runs."""
    with joined_pair(folder) as (analyst, lead, hospital):
        yield Scene(analyst, lead, hospital, folder)
