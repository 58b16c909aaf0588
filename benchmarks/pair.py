"""An analyst and two institutions that have joined, for benchmarks of what one of them takes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odc_demo.actors import Analyst, Institution, found_consortium, join_all


@contextmanager
def joined_pair(folder: Path) -> Iterator[tuple[Analyst, Institution, Institution]]:
    """Yield the analyst, the lead and the other institution once both have joined, while its server runs."""
    analyst = Analyst(folder / "analyst")
    lead, hospital = (Institution(name, folder / name) for name in ("lead", "hospital"))
    passphrase = folder / "passphrase"
    passphrase.write_text(secrets.token_hex(16))
    try:
        found_consortium(analyst, lead, passphrase)
        join_all(lead, [hospital], passphrase)
        yield analyst, lead, hospital
    finally:
        analyst.stop()
