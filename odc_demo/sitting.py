"""What a member exchanges besides its uplink, downlink and anchor, in a round as people play it.

Five institutions join and play by the commands of the README, each in one sitting: ``odc join`` and ``odc
round``. The terms are a draft of the lead's own table, so they name the analyst's key, and everybody
compares ledgers. The counts are those of the institutions' own meters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from metering.client_traffic import recorded
from odc_demo.actors import Analyst, Institution, found_consortium
from odc_demo.tables import breast_cancer, write_csv

FEATURES: Final = 13
"""As many columns as the data on heart disease has. One of numbers more adds some 110 bytes to the terms."""
_LABEL: Final = "diagnosis"
_WAIT: Final = ("--wait", "280")
_MOST_TO_CLOSE_BYTES: Final = 200
"""Closing TLS takes less; it carries nothing of HTTP either."""


@dataclass(frozen=True)
class Exchanged:
    """Control bytes of one member.

    Attributes
    ----------
    joining_bytes : int
        Until it has its certificate.
    round_bytes : int
        From then on, with one handshake.
    again_bytes : int
        Further handshakes: the line is closed after nearly a minute without a request, and on a busy machine
        preparing may take so long.
    """

    joining_bytes: int
    round_bytes: int
    again_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.joining_bytes + self.round_bytes + self.again_bytes


def one_sitting(directory: Path, features: int = FEATURES) -> dict[str, Exchanged]:
    """Let five institutions play a round; return what each member but the lead has exchanged."""
    directory.mkdir(parents=True, exist_ok=True)
    (passphrase := directory / "passphrase").write_text("only a measurement keeps this in a file")
    tables = breast_cancer().by_hospital
    analyst = Analyst(directory / "analyst")
    lead, *members = (Institution(name, directory / name) for name in tables)
    for one, table in zip((lead, *members), tables.values(), strict=True):
        write_csv(table.select([*table.column_names[:features], _LABEL]), one.home / "rows.csv")
    found_consortium(analyst, lead, passphrase)
    try:
        _let_join(lead, members, passphrase)
        before = {one.name: (_control_bytes(one), len(_handshakes(one))) for one in members}
        _play(analyst, (lead, *members))
    finally:
        analyst.stop()
    return {one.name: _exchanged(one, *before[one.name]) for one in members}


def _let_join(lead: Institution, members: Sequence[Institution], passphrase: Path) -> None:
    waiting = []
    for one in members:
        invitation = lead.home / f"{one.name}.invitation.json"
        lead.odc("consortium", "invite", one.name, "--out", str(invitation))
        words = ("join", str(invitation), *_WAIT)
        waiting.append((one, words, one.start(*words)))
    lead.odc("consortium", "approve", "--yes", "--watch", "20", "--passphrase-file", str(passphrase))
    for one, words, process in waiting:
        one.finish(words, process)


def _play(analyst: Analyst, everybody: Sequence[Institution]) -> None:
    lead, draft = everybody[0], everybody[0].home / "terms.toml"
    parties = [word for one in everybody for word in ("--party", one.name)]
    lead.odc("terms", "draft", "rows.csv", "--label", _LABEL, *parties)
    if "analyst_key" not in draft.read_text():
        raise RuntimeError("the draft does not name the analyst's key")
    analyst.run("collaboration", "create", str(draft))
    words = ("round", "rows.csv", "--yes", *_WAIT)
    playing = [(one, one.start(*words)) for one in everybody]
    for one, process in playing:
        one.finish(words, process)


def _exchanged(one: Institution, joining_bytes: int, handshakes_before: int) -> Exchanged:
    again_bytes = sum(_handshakes(one)[handshakes_before + 1 :])
    return Exchanged(joining_bytes, _control_bytes(one) - joining_bytes - again_bytes, again_bytes)


def _control_bytes(one: Institution) -> int:
    return sum(
        counts.up.measured_bytes + counts.down.measured_bytes
        for (_, kind), counts in recorded(_traffic(one)).counts.items()
        if kind == "control"
    )


def _handshakes(one: Institution) -> list[int]:
    """Return the bytes of each handshake: what was carried before anything of HTTP was."""
    lines = map(json.loads, _traffic(one).read_text().splitlines())
    carried = (
        line["sent"]["wire_bytes"] + line["received"]["wire_bytes"]
        for line in lines
        if not line["sent"]["plain_bytes"] + line["received"]["plain_bytes"]
    )
    return [count for count in carried if count > _MOST_TO_CLOSE_BYTES]


def _traffic(one: Institution) -> Path:
    return one.home / "traffic.jsonl"
