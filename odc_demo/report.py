"""What a demo shows at its end: rows, bytes next to the formulas, and scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from analyst_server.compute.model_registry import trainable_of
from metering.formulas import FORMULA_BITS, anchor
from odc_demo import scores
from protocol.answers import Score
from protocol.model_terms import ModelTerms, with_candidates
from protocol.table_schema import Schema

_COLUMNS_OF_CLASSES: Final = {"accuracy": ("accuracy", ".1%"), "roc_auc": ("ROC-AUC", ".3f")}
_COLUMNS_OF_NUMBERS: Final = {"r2": ("R squared", ".3f"), "rmse": ("RMSE", ",.4g")}
"""Scores by their names in the report: the title of the column, and how a figure is written."""


def assemble(
    *,
    dataset: str,
    analyst: dict[str, Any],
    members: list[dict[str, Any]],
    received: list[dict[str, Any]],
    evaluated: list[dict[str, Any] | None],
    terms: dict[str, Any],
    compared: dict[str, Any],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the report of a round, assembled from the outputs of its parties.

    Parameters
    ----------
    analyst : dict
        Output of ``odc-analyst collaboration report``.
    members, received : list of dict
        Outputs of ``odc status`` and ``odc receive``, one per hospital in the same order.
    evaluated : list of dict or None
        Outputs of ``odc evaluate`` in the same order, None for a hospital without a row to evaluate on.
    terms : dict
        The terms as drafted.
    compared : dict
        The result of `compare`.
    """
    label = terms["table_schema"]["label_column"]
    sizes = _count_bytes(analyst, members, [answer["payload_bytes"] for answer in received])
    return {
        "dataset": dataset,
        "task": f"predict {label['name']}"
        if label.get("kind") == "number"
        else f"classify {label['name']} ({len(label['classes'])} classes)",
        "parties": sizes.pop("parties"),
        "uplink": analyst["uplink"],
        "alignment": analyst["alignment"],
        "anchor": analyst["anchor"],
        "features": analyst["features"],
        "latent_dim": analyst["latent_dim"],
        "concordance_gap": analyst["results"].get("alignment", {}).get("concordance_gap"),
        "scores": compared,
        "evaluated": {member["party"]: found for member, found in zip(members, evaluated, strict=True)},
        "bytes": sizes,
        "seconds": seconds,
        "state": analyst["state"],
    }


def compare(
    rows: Mapping[str, pa.Table], hold_out: pa.Table, predictions: Mapping[str, Path], terms: dict[str, Any]
) -> dict[str, Any]:
    """Return the scores of the collaboration, of all rows pooled, and of each hospital that has rows.

    The last two are of the kind of model that the terms have; under sums, of the default kind for rows.
    """
    schema = Schema.model_validate(terms["table_schema"], strict=False)
    asked = with_candidates(terms["model"], schema.label_column.task)
    if "sums" in terms:
        asked = {"kind": "averaged"}
    model = trainable_of(TypeAdapter[ModelTerms](ModelTerms).validate_python(asked))
    collaboration = {
        name: scores.of_predictions(pyarrow.csv.read_csv(path), hold_out, schema)
        for name, path in predictions.items()
    }
    local = scores.local({name: table for name, table in rows.items() if len(table)}, hold_out, schema, model)
    return {
        "central": scores.central(rows, hold_out, schema, model),
        "local_mean": scores.mean(list(local.values())),
        "collaboration": scores.mean(list(collaboration.values())),
        "by_hospital": {
            name: {"local": local.get(name), "collaboration": collaboration[name]} for name in rows
        },
    }


def _count_bytes(
    report: dict[str, Any], members: list[dict[str, Any]], received: list[int]
) -> dict[str, Any]:
    """Return formulas, payload and wire bytes (the kernel's count, with TLS), in total and by hospital."""
    rows = {party["party"]: party for party in report["parties"]}
    names = [member["party"] for member in members]
    anchor_rows = report["anchor"]["rows"] if report["uplink"] == "rows" else 0
    anchor_bytes = anchor(anchor_rows=anchor_rows, features=report["features"], bits=FORMULA_BITS)
    parties = [
        {
            "name": name,
            "rows": rows[name]["rows"],
            "uplink_formula_bytes": rows[name]["uplink_formula_bytes"],
            "uplink_payload_bytes": rows[name]["uplink_payload_bytes"],
            "downlink_formula_bytes": rows[name]["downlink_formula_bytes"],
            "downlink_payload_bytes": down_payload,
            "wire_bytes": _wire(member["traffic_bytes"]),
        }
        for name, member, down_payload in zip(names, members, received, strict=True)
    ]
    up = sum(party["uplink_formula_bytes"] for party in parties)
    down = sum(party["downlink_formula_bytes"] for party in parties)
    wire = {kind: sum(party["wire_bytes"][kind] for party in parties) for kind in parties[0]["wire_bytes"]}
    return {
        "parties": parties,
        "formula": {
            "uplink": up,
            "downlink": down,
            "anchor": anchor_bytes,
            "total": up + down + anchor_bytes,
        },
        "payload": {
            "uplink": sum(party["uplink_payload_bytes"] for party in parties),
            "downlink": sum(party["downlink_payload_bytes"] for party in parties),
        },
        "wire": {**wire, "total": sum(wire.values())},
    }


def _wire(traffic: dict[str, dict[str, int]]) -> dict[str, int]:
    """Return one figure per kind; bytes against the main direction (answers to an uplink) are control."""

    def one(kind: str, direction: str) -> int:
        return traffic.get(kind, {}).get(direction, 0)

    main = {
        "uplink": one("uplink", "sent"),
        "downlink": one("downlink", "received"),
        "anchor": one("anchor", "sent") + one("anchor", "received"),
    }
    in_all = sum(sums["sent"] + sums["received"] for sums in traffic.values())
    return {**main, "control": in_all - sum(main.values())}


def print_tables(report: dict[str, Any]) -> None:
    """Print the report as tables."""
    shown = Console(highlight=False)
    table = Table(title=f"{report['dataset']}: l = {report['latent_dim']} of {report['features']} features")
    table.add_column("hospital", no_wrap=True)
    up_formula, down_formula = ("(3)", "(4)") if report["uplink"] == "rows" else ("formula", "formula")
    for name in ("rows", "up", up_formula, "ratio", "down", down_formula, "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for party in report["parties"]:
        up, down = party["uplink_payload_bytes"], party["downlink_payload_bytes"]
        formula_up, formula_down = party["uplink_formula_bytes"], party["downlink_formula_bytes"]
        table.add_row(
            party["name"], "-" if party["rows"] is None else f"{party['rows']:,}",
            f"{up:,}", f"{formula_up:,.0f}", f"{up / formula_up:.3f}",
            f"{down:,}", f"{formula_down:,.0f}", f"{down / formula_down:.3f}",
        )  # fmt: skip
    table.caption = (
        "bytes of payload up and down, next to the paper's formulas (3) and (4)"
        if report["uplink"] == "rows"
        else "masked sums: bytes of payload up and down, next to their formulas, which no row enters"
    )
    shown.print(table)
    compared = Table(title="scores on the common hold-out")
    columns = _COLUMNS_OF_NUMBERS if "r2" in report["scores"]["central"] else _COLUMNS_OF_CLASSES
    for name in ("model", *(title for title, _ in columns.values())):
        compared.add_column(name, justify="left" if name == "model" else "right")
    labels = {
        "central": "all rows in one place (not possible in practice)",
        "local_mean": "each hospital alone, mean",
        "collaboration": "this collaboration, mean over hospitals",
    }
    for key, label in labels.items():
        found = report["scores"][key]
        figures = (format(found[name], how) if name in found else "-" for name, (_, how) in columns.items())
        compared.add_row(label, *figures)
    shown.print(compared)
    shown.print(_gains(report["evaluated"]))
    wire = report["bytes"]["wire"]
    shown.print(
        f"on the wire, TLS included: {wire['uplink']:,} B up, {wire['downlink']:,} B down,"
        f" {wire['anchor']:,} B anchor, {wire['control']:,} B control"
        if wire["total"]
        else "on the wire: this system does not count bytes per connection"
    )
    shown.print(f"state {report['state']} after {report['seconds']['total']:.0f} s")


def _gains(evaluated: Mapping[str, Score | None]) -> Table:
    """Return what each hospital gained, as its own ``odc evaluate`` printed it."""
    table = Table(title="did it help? each hospital on the rows it kept back")
    for name in ("hospital", "rows", "alone", "together", "gained", "95 % interval"):
        table.add_column(name, justify="left" if name == "hospital" else "right", no_wrap=True)
    metrics = set()
    for hospital, found in evaluated.items():
        if found is None:
            table.add_row(hospital, "0", *["-"] * 4)
            continue
        metrics.add({"roc_auc": "ROC-AUC", "accuracy": "accuracy", "r2": "R squared"}[found["metric"]])
        cells = [f"{found['rows']:,}", "-", f"{found['together']:.1%}", "-", "-"]
        if found["alone"] is not None:
            cells[1] = f"{found['alone']:.1%}"
            cells[3] = f"{100 * (found['together'] - found['alone']):+.1f}"
            cells[4] = "too few rows"
        if found["gain_low"] is not None and found["gain_high"] is not None:
            low, high = (100 * end for end in (found["gain_low"], found["gain_high"]))
            cells[4] = f"{low:+.1f} to {high:+.1f}"
        table.add_row(hospital, *cells)
    table.caption = f"{' or '.join(sorted(metrics))}; gained in points" if metrics else None
    return table
