"""Two analysts that are one: the same records and arrays, and a balancer before them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from odc_demo.actors import Analyst
from tests.harness.balancer import Balancer
from tests.harness.consortium import WAIT_S, Consortium, beside_a_second, consortium, rows

NAMES: Final = ("lead-hospital", "hospital-b")
ROWS: Final = 120_000
"""Some two megabytes of an uplink."""
CUT_AFTER: Final = 500_000
SLOW_MODEL: Final = {"kind": "mlp", "hidden_units": 512, "epochs": 100}
LEASE_S: Final = 2


@dataclass
class Several:
    """A consortium whose institutions reach two analysts through a balancer."""

    consortium: Consortium
    analysts: list[Analyst]
    balancer: Balancer

    def at(self, port: int) -> Analyst:
        return next(one for one in self.analysts if one.port == port)

    def send(self, found: str, name: str, seed: int = 0, count: int = ROWS) -> object:
        return self.consortium.contribute(name, found, rows(seed, count))

    def send_all(self, found: str, count: int = ROWS) -> None:
        for seed, name in enumerate(self.consortium.names):
            self.send(found, name, seed, count)

    def holder(self, found: str) -> Analyst:
        """Return the analyst whose worker holds a round."""
        deadline = time.monotonic() + WAIT_S
        while True:
            with self.consortium.operator() as opened, opened.records.begin() as unit:
                row = unit.collaboration(found)
                owner = row.lease_owner if row is not None else None
            for one in self.analysts:
                if owner and (one.data_dir / "workers" / f"{owner}.lock").exists():
                    return one
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def steps(self, found: str) -> list[str]:
        with self.consortium.operator() as opened, opened.records.begin() as unit:
            return [row.event for row in unit.ledger(found)]

    def logs(self) -> str:
        return "\n".join(one.log_path.read_text() for one in self.analysts)

    def addresses(self, port: int) -> dict[str, str]:
        """Return what is replaced in a configuration of deploy/balancer that listens at a port."""
        first, second = (each.port for each in self.analysts)
        return {
            "10.0.0.11:8443": f"127.0.0.1:{first}",
            "10.0.0.12:8443": f"127.0.0.1:{second}",
            "/etc/haproxy/odc-root.pem": str(self.analysts[0].data_dir / "identity" / "root.pem"),
            "analyst.example": "localhost",
            "bind :8443": f"bind 127.0.0.1:{port}",
            "listen 8443": f"listen 127.0.0.1:{port}",
        }

    def be_quiet(self) -> None:
        """Let the balancer do nothing but balance, and both analysts run."""
        self.balancer.cut_after, self.balancer.pause_s = None, 0.0
        self.balancer.on_bytes = lambda _server, _sent: None
        self.balancer.served.clear()
        for one in self.analysts:
            if one.server is None:
                one.start()


@contextmanager
def several_analysts(directory: Path, records_url: str, blobs: Mapping[str, str]) -> Iterator[Several]:
    """Yield two analysts; ``blobs`` is what their environment says of their arrays."""
    with (
        pytest.MonkeyPatch.context() as patch,
        consortium(
            directory,
            *NAMES,
            ODC_ANALYST_DATABASE_URL=records_url,
            ODC_ANALYST_LEASE_S=str(LEASE_S),
            **blobs,
        ) as made,
    ):
        for variable, value in blobs.items():  # for the operator's commands in this process
            patch.setenv(variable, value)
        with beside_a_second(made) as (other, between):
            yield Several(made, [made.analyst, other], between)
