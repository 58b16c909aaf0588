"""The bytes of rounds of sums, counted on the wire: real processes, the commands people type, mutual TLS."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from odc_demo.actors import Analyst, Institution, found_consortium, join_all
from odc_demo.tables import breast_cancer, write_csv

HOSPITALS: Final = 3


def uplinks_of_rounds(random_features: Sequence[int]) -> list[dict[str, Any]]:
    """Hold a round of breast cancer for each number of random features; return what the uplinks cost.

    The bytes are those that the analyst has counted of the kind ``uplink``, of the institution with the most.
    """
    tables = breast_cancer()
    chosen = dict(list(tables.by_hospital.items())[:HOSPITALS])
    with tempfile.TemporaryDirectory(prefix="odc-sums-") as folder:
        out = Path(folder)
        analyst, passphrase = Analyst(out / "analyst"), out / "passphrase"
        passphrase.write_text("only a benchmark keeps this in a file")
        hospitals = [Institution(name, out / name) for name in chosen]
        for hospital in hospitals:
            write_csv(chosen[hospital.name], hospital.home / "rows.csv")
        try:
            found_consortium(analyst, hospitals[0], passphrase)
            join_all(hospitals[0], hospitals[1:], passphrase)
            ids = [_play(analyst, hospitals, tables.label, count) for count in random_features]
        finally:
            analyst.stop()  # it writes its last byte counts
        reports = [json.loads(analyst.run("collaboration", "report", one, "--json")) for one in ids]
    return [worst_uplink(count, report) for count, report in zip(random_features, reports, strict=True)]


def _play(analyst: Analyst, hospitals: Sequence[Institution], label: str, random_features: int) -> str:
    """Take a round from its draft to the release; return its id."""
    lead = hospitals[0]
    parties = [word for hospital in hospitals for word in ("--party", hospital.name)]
    drafting = ("--label", label, *parties, "--uplink", "sums", "--random-features", str(random_features))
    lead.odc("terms", "draft", "rows.csv", *drafting, "--force")
    made = json.loads(analyst.run("collaboration", "create", str(lead.home / "terms.toml"), "--json"))
    collaboration = ("--collaboration", made["collaboration_id"])
    for hospital in hospitals:
        hospital.odc("terms", "accept", *collaboration)
    lead.odc("anchor", "create", *collaboration)
    for hospital in hospitals:
        hospital.odc("contribute", "--yes", "rows.csv", *collaboration)
    for hospital in hospitals:
        hospital.odc("receive", "--wait", "300", *collaboration)
    return str(made["collaboration_id"])


def worst_uplink(random_features: int, report: dict[str, Any]) -> dict[str, Any]:
    """Return the uplink of the institution that has sent most, from the analyst's report."""
    uplinks = [party["uplink"] for party in report["wire"]["parties"]]
    uplink = max(uplinks, key=lambda one: one["measured_bytes"])
    return {
        "table": "breast_cancer",
        "random_features": random_features,
        "counter": report["wire"]["counter"],
        "uplink": uplink,
        "uplink_over_formula": uplink["measured_bytes"] / uplink["formula_bytes"],
    }
