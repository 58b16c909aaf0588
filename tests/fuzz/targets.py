"""The one table of targets."""

from __future__ import annotations

from typing import Final

from tests.fuzz import client, decoders, parts, served, trust
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target for module in (decoders, trust, client, parts, served) for target in module.TARGETS
}
"""By name, which is also that of a folder of the corpus."""
