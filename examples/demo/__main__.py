"""Run the demo: print a table a person can read, and leave ``build/demo/report.json``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.csv
import tomli_w
from rich.console import Console
from rich.table import Table

from examples.demo import scores
from examples.demo.actors import Analyst, CommandError, Institution, found_consortium, join_all
from examples.demo.tables import DemoTables, breast_cancer, own_table, write_csv
from protocol.errors import OdcError, for_terminal
from protocol.messages import DTYPE_BYTES
from protocol.metering import whole_round
from protocol.terms import Schema

console = Console(stderr=True, highlight=False)


class Stopwatch:
    """Seconds of each step, told while they pass."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, text: str) -> Iterator[None]:
        start = time.monotonic()
        console.print(f"  {text} ...", end=" ")
        yield
        self.seconds[name] = time.monotonic() - start
        console.print(f"{self.seconds[name]:.1f} s")


def run(tables: DemoTables, out: Path, latent_dim: int | None) -> dict[str, Any]:
    """Play the round and return the report."""
    shutil.rmtree(out, ignore_errors=True)
    watch, start = Stopwatch(), time.monotonic()
    analyst = Analyst(out / "analyst")
    hospitals = [Institution(name, out / name) for name in tables.by_hospital]
    lead, others = hospitals[0], hospitals[1:]
    passphrase = out / "passphrase-of-the-root"
    passphrase.parent.mkdir(parents=True, exist_ok=True)
    passphrase.write_text("only a demo keeps this in a file")
    own = {h.name: write_csv(tables.by_hospital[h.name], h.home / "rows.csv") for h in hospitals}
    test = write_csv(tables.hold_out, out / "hold-out.csv")
    console.print(f"{len(hospitals)} hospitals and an analyst, in {out}")
    try:
        with watch.step("join", "root, invitations, certificates"):
            found_consortium(analyst, lead, passphrase)
            join_all(lead, others, passphrase)
        with watch.step("terms", "terms drafted, published, signed by all"):
            terms = _publish_terms(tables, analyst, lead, [h.name for h in hospitals], latent_dim, out)
            _together(hospitals, "terms", "accept")
        with watch.step("anchor", "anchor drawn and sealed for each"):
            lead.odc("anchor", "create")
        with watch.step("uplink", "one uplink each"):
            for hospital in hospitals:
                hospital.odc("contribute", str(own[hospital.name]))
        with watch.step("round", "the analyst aligns and trains, one downlink each"):
            received = _together(hospitals, "receive", "--wait", "300")
        with watch.step("predict", "predictions at home"):
            predictions = {h.name: h.home / "predictions.csv" for h in hospitals}
            for hospital in hospitals:
                hospital.odc("predict", str(test), "--out", str(predictions[hospital.name]))
        members = [hospital.odc("status") for hospital in hospitals]
        found = members[0]["collaborations"][0]
        report = json.loads(analyst.run("collaboration", "report", found["collaboration_id"], "--json"))
    finally:
        analyst.stop()
    schema = Schema.model_validate(terms["table_schema"], strict=False)
    with watch.step("baselines", "for comparison: all rows pooled, and each hospital alone"):
        compared = _compare(tables, predictions, schema)
    sizes = _bytes(report, members, terms, [answer["payload_bytes"] for answer in received])
    watch.seconds["total"] = time.monotonic() - start
    return {
        "dataset": tables.name,
        "task": f"classify {tables.label} ({len(schema.label_column.classes)} classes)",
        "parties": sizes.pop("parties"),
        "alignment": report["alignment"],
        "anchor": report["anchor"],
        "features": report["features"],
        "latent_dim": report["latent_dim"],
        "concordance_gap": report["results"]["alignment"]["concordance_gap"],
        "scores": compared,
        "bytes": sizes,
        "seconds": watch.seconds,
        "state": report["state"],
    }


def _together(hospitals: list[Institution], *words: str) -> list[Any]:
    """The same command at every hospital, all at once; return their answers."""
    running = [(hospital, hospital.start(*words)) for hospital in hospitals]
    return [hospital.finish(words, process) for hospital, process in running]


def _publish_terms(
    tables: DemoTables,
    analyst: Analyst,
    lead: Institution,
    parties: list[str],
    latent_dim: int | None,
    out: Path,
) -> dict[str, Any]:
    dictionary = write_csv(tables.dictionary, out / "dictionary.csv")
    drafted = out / "terms.toml"
    words = ["terms", "draft", str(dictionary), "--label", tables.label, "--out-of-range", "clip"]
    words += [word for party in parties for word in ("--party", party)]
    words += [word for column in tables.exclude for word in ("--exclude", column)]
    words += ["--title", f"Demo: {tables.name}", "--out", str(drafted)]
    if latent_dim is not None:
        words += ["--latent-dim", str(latent_dim)]
    lead.odc(*words)
    terms = tomllib.loads(drafted.read_text())
    terms["purpose"] = "Show a whole round on one machine."
    drafted.write_text(tomli_w.dumps(terms))
    analyst.run("collaboration", "create", str(drafted))
    return terms


def _compare(tables: DemoTables, predictions: dict[str, Path], schema: Schema) -> dict[str, Any]:
    collaboration = {
        name: scores.of_predictions(pyarrow.csv.read_csv(path), tables.hold_out, schema)
        for name, path in predictions.items()
    }
    local = scores.local(tables.by_hospital, tables.hold_out, schema)
    return {
        "central": scores.central(tables.by_hospital, tables.hold_out, schema),
        "local_mean": scores.mean(list(local.values())),
        "collaboration": scores.mean(list(collaboration.values())),
        "by_hospital": {
            name: {"local": local[name], "collaboration": collaboration[name]} for name in tables.by_hospital
        },
    }


def _bytes(
    report: dict[str, Any], members: list[dict[str, Any]], terms: dict[str, Any], received: list[int]
) -> dict[str, Any]:
    """Formulas, payload and wire, in all and by hospital. The wire is the kernel's count, TLS included."""
    rows = {party["party"]: party for party in report["parties"]}
    names = [member["party"] for member in members]
    formula = whole_round(
        rows=[rows[name]["rows"] for name in names],
        anchor_rows=report["anchor"]["rows"],
        features=report["features"],
        latent_dim=report["latent_dim"],
        model_parameters=report["results"]["model_parameters"],
        bits=8 * DTYPE_BYTES[terms["rep_dtype"]],
    )
    parties = [
        {
            "name": name,
            "rows": rows[name]["rows"],
            "uplink_formula_bytes": up.total_bytes,
            "uplink_payload_bytes": rows[name]["uplink_payload_bytes"],
            "downlink_formula_bytes": down.total_bytes,
            "downlink_payload_bytes": down_payload,
            "wire_bytes": _wire(member["traffic_bytes"]),
        }
        for name, member, up, down, down_payload in zip(
            names, members, formula.uplinks, formula.downlinks, received, strict=True
        )
    ]
    wire = {kind: sum(party["wire_bytes"][kind] for party in parties) for kind in parties[0]["wire_bytes"]}
    return {
        "parties": parties,
        "formula": {
            "uplink": sum(part.total_bytes for part in formula.uplinks),
            "downlink": sum(part.total_bytes for part in formula.downlinks),
            "anchor": formula.anchor_bytes,
            "total": formula.total_bytes,
        },
        "payload": {
            "uplink": sum(party["uplink_payload_bytes"] for party in parties),
            "downlink": sum(party["downlink_payload_bytes"] for party in parties),
        },
        "wire": {**wire, "total": sum(wire.values())},
    }


def _wire(traffic: dict[str, dict[str, int]]) -> dict[str, int]:
    """One figure a kind. What goes against the main direction (answers to an uplink) is control."""

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
    """Show the report to a person."""
    shown = Console(highlight=False)
    table = Table(title=f"{report['dataset']}: l = {report['latent_dim']} of {report['features']} features")
    table.add_column("hospital", no_wrap=True)
    for name in ("rows", "up", "(3)", "ratio", "down", "(4)", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for party in report["parties"]:
        up, down = party["uplink_payload_bytes"], party["downlink_payload_bytes"]
        formula_up, formula_down = party["uplink_formula_bytes"], party["downlink_formula_bytes"]
        table.add_row(
            party["name"], f"{party['rows']:,}",
            f"{up:,}", f"{formula_up:,.0f}", f"{up / formula_up:.3f}",
            f"{down:,}", f"{formula_down:,.0f}", f"{down / formula_down:.3f}",
        )  # fmt: skip
    table.caption = "bytes of payload up and down, beside the paper's formulas (3) and (4)"
    shown.print(table)
    compared = Table(title="scores on the common hold-out")
    for name in ("model", "accuracy", "ROC-AUC"):
        compared.add_column(name, justify="left" if name == "model" else "right")
    labels = {
        "central": "all rows in one place (not possible in life)",
        "local_mean": "each hospital alone, mean",
        "collaboration": "this collaboration, mean over hospitals",
    }
    for key, label in labels.items():
        found = report["scores"][key]
        auc = f"{found['roc_auc']:.3f}" if "roc_auc" in found else "-"
        compared.add_row(label, f"{found['accuracy']:.1%}", auc)
    shown.print(compared)
    wire = report["bytes"]["wire"]
    shown.print(
        f"on the wire, TLS included: {wire['uplink']:,} B up, {wire['downlink']:,} B down,"
        f" {wire['anchor']:,} B anchor, {wire['control']:,} B control"
        if wire["total"]
        else "on the wire: this system does not count bytes per connection"
    )
    shown.print(f"state {report['state']} after {report['seconds']['total']:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--data", type=Path, help="your own table (CSV or Parquet) with a site column")
    parser.add_argument("--label", help="its column to predict")
    parser.add_argument("--site", help="its column that names the site")
    parser.add_argument("--exclude", default="", help="columns to leave out, separated by commas")
    parser.add_argument("--latent-dim", type=int, help="l; half of the features by default")
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    given = parser.parse_args()
    if given.data and not (given.label and given.site):
        parser.error("--data needs --label and --site")
    try:
        if given.data:
            excluded = tuple(name for name in given.exclude.split(",") if name)
            tables = own_table(given.data, given.label, given.site, excluded)
        else:
            tables = breast_cancer()
        report = run(tables, given.out.resolve(), given.latent_dim)
    except OdcError as error:
        console.print(for_terminal("demo", error))
        return error.exit_code
    except (CommandError, RuntimeError) as error:
        console.print(f"demo: error: {error}")
        return 1
    (given.out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    print_tables(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
