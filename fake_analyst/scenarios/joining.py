"""An analyst that speaks another version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fake_analyst.between import Answer, Lie, Request, in_json
from fake_analyst.client import Step
from fake_analyst.scenario import Scenario, Stand
from protocol.operations import DISCOVER


def _other_version(_stand: Stand) -> Sequence[Lie]:
    def discovery(_request: Request) -> Answer:
        said = {"service": "odc-analyst", "software": "odc 9.0.0", "wire_versions": [2]}
        types = ["application/vnd.odc.v2+msgpack"]
        return in_json({**said, "media_types": types, "limits": {"message_bytes": 4194304}})

    return [Lie(DISCOVER, instead=discovery)]


SCENARIOS: Final = (
    Scenario(
        name="other-version",
        does="speaks wire version 2 alone",
        section="11",
        says=(
            "It uses the newest version that both sides speak. If there is none, it stops with "
            "`unsupported-version`"
        ),
        step=Step.JOIN,
        lies=_other_version,
    ),
)
