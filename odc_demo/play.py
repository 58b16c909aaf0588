"""Run the demo: print readable tables, and write ``build/demo/report.json``."""

from __future__ import annotations

import argparse
import json
import os
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import TypeAdapter
from rich.console import Console

from odc_demo import directory
from odc_demo.actors import Analyst, CommandError, Institution, found_consortium, join_all
from odc_demo.report import assemble, compare, print_tables
from odc_demo.tables import DemoTables, breast_cancer, own_table, source_of, write_csv
from protocol.errors import OdcError
from protocol.model_terms import ModelTerms, revealing_in_words, with_candidates
from runtime.terminal import exit_code, for_terminal
from user_client.errors import NothingKeptBackError, SignalLossError
from user_client.tables import PLAIN

INPUT_ERROR = exit_code(NothingKeptBackError)
"""How `odc evaluate` ends where no row was kept back."""
T = TypeVar("T")
console = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Wishes:
    """What the terms are to say; None leaves it to the draft."""

    latent_dim: int | None = None
    model: str | None = None
    uplink: str = "rows"


class Stopwatch:
    """Records the seconds of each step and prints them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, text: str) -> Iterator[None]:
        start = time.monotonic()
        console.print(f"  {text} ...", end=" ")
        yield
        self.seconds[name] = time.monotonic() - start
        console.print(f"{self.seconds[name]:.1f} s")


def run(tables: DemoTables, out: Path, wishes: Wishes) -> dict[str, Any]:
    """Run the round and return the report; what an earlier demo left in ``out`` is removed."""
    directory.begin(out, list(tables.by_hospital))
    watch, start = Stopwatch(), time.monotonic()
    analyst = Analyst(out / "analyst")
    hospitals = [Institution(name, out / name) for name in tables.by_hospital]
    lead, others = hospitals[0], hospitals[1:]
    passphrase = out / "passphrase-of-the-root"
    passphrase.write_text("only a demo keeps this in a file")
    own = {h.name: write_csv(tables.by_hospital[h.name], h.home / "rows.csv") for h in hospitals}
    test = write_csv(tables.hold_out, out / "hold-out.csv")
    console.print(f"{len(hospitals)} hospitals and an analyst, in {out}")
    try:
        with watch.step("join", "root, invitations, certificates"):
            found_consortium(analyst, lead, passphrase)
            join_all(lead, others, passphrase)
        with watch.step("terms", "terms drafted, published, signed by all"):
            drafted = _draft_terms(tables, lead, own, wishes, out / "terms.toml")
            analyst.run("collaboration", "create", str(drafted))
            terms = tomllib.loads(drafted.read_text())
            consent = consent_to(terms)
            _side_by_side(hospitals, lambda one: one.odc("terms", "accept", *consent))
        with watch.step("anchor", "anchor created and sealed for each"):
            lead.odc("anchor", "create")
        with watch.step("uplink", "one uplink each"):
            _side_by_side(hospitals, lambda one: _contribute(one, own[one.name]))
        with watch.step("round", "the analyst aligns and trains, one downlink each"):
            received = _side_by_side(hospitals, lambda one: one.odc("receive", "--wait", "300"))
        with watch.step("predict", "each hospital predicts on its own"):
            predictions = {h.name: h.home / "predictions.csv" for h in hospitals}
            _side_by_side(hospitals, lambda one: _predict(one, test, predictions[one.name]))
        with watch.step("evaluate", "each hospital compares with a model of its own rows alone"):
            evaluated = _side_by_side(hospitals, lambda one: _evaluate(one, own[one.name]))
        members = _side_by_side(hospitals, lambda one: one.odc("status"))
        found = members[0]["collaborations"][0]
        with watch.step("judge", "the analyst judges the model"):
            words = ("collaboration", "report", found["collaboration_id"], "--wait", "300", "--json")
            report = json.loads(analyst.run(*words))
    finally:
        analyst.stop()
    with watch.step("baselines", "for comparison: all rows pooled, and each hospital alone"):
        compared = compare(tables.by_hospital, tables.hold_out, predictions, terms)
    watch.seconds["total"] = time.monotonic() - start
    return assemble(
        dataset=tables.name,
        analyst=report,
        members=members,
        received=received,
        evaluated=evaluated,
        terms=terms,
        compared=compared,
        seconds=watch.seconds,
    )


def _side_by_side(hospitals: list[Institution], act: Callable[[Institution], T]) -> list[T]:
    """Let every hospital do the same, as many at a time as there are processors; return their answers."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(act, hospitals))


def consent_to(terms: dict[str, Any]) -> list[str]:
    """Return the consent to a model with training rows inside: all hospitals are the person's who asks."""
    task = terms["table_schema"]["label_column"].get("kind", "classes")
    given = with_candidates(terms.get("model", {"kind": "averaged"}), task)
    model = TypeAdapter[ModelTerms](ModelTerms).validate_python(given, strict=False)
    if "sums" in terms or not model.carries_rows:
        return []
    console.print(
        f"\n  a model of the kind {revealing_in_words(model)} has training rows inside; all hospitals of the"
        " demo consent with --accept-row-revealing-model ...",
        end=" ",
    )
    return ["--accept-row-revealing-model"]


def _contribute(hospital: Institution, table: Path) -> None:
    """Send a hospital's uplink; the demo has nobody to ask whether to send in spite of a warning."""
    try:
        hospital.odc("contribute", "--yes", str(table))
    except CommandError as error:
        if SignalLossError.hint not in error.stderr:
            raise
        console.print(f"\n  {hospital.name}: {error.stderr.strip()}\n  the demo sends anyway ...", end=" ")
        hospital.odc("contribute", "--yes", "--accept-signal-loss")


def _predict(hospital: Institution, table: Path, out: Path) -> None:
    hospital.odc("predict", str(table), "--out", str(out))


def _evaluate(hospital: Institution, table: Path) -> Any:
    """Return what a hospital finds on the rows it kept back; None if there are none."""
    try:
        return hospital.odc("evaluate", str(table), "--send")
    except CommandError as error:
        if error.exit_code != INPUT_ERROR:
            raise
        return None


def _draft_terms(
    tables: DemoTables, lead: Institution, own: Mapping[str, Path], wishes: Wishes, out: Path
) -> Path:
    """Draft the terms from the lead's own rows, of those of all parties by name; return ``out``."""
    words = ["terms", "draft", str(own[lead.name]), "--label", tables.label, *tables.corrections]
    if tables.corrections:
        console.print(f"(with {' '.join(tables.corrections)})", end=" ")
    words += [word for party in own for word in ("--party", party)]
    words += [word for column in tables.exclude for word in ("--exclude", column)]
    words += ["--title", f"Demo: {tables.name}", "--uplink", wishes.uplink, "--out", str(out)]
    if wishes.latent_dim is not None:
        words += ["--latent-dim", str(wishes.latent_dim)]
    lead.odc(*words)
    terms = tomllib.loads(out.read_text())
    terms["purpose"] = "Show a whole round on one machine."
    if wishes.model is not None:
        terms["model"] = {"kind": wishes.model}
    out.write_text(tomli_w.dumps(terms))
    return out


def main() -> int:
    """Read the command line, run the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="odc-demo", description=__doc__)
    parser.add_argument("--data", type=Path, help="your own table (CSV or Parquet) with a site column")
    parser.add_argument("--label", help="the column to predict")
    parser.add_argument("--site", help="the column that names the site")
    parser.add_argument(
        "--csv", help="how a CSV file is written, such as semicolons,decimal-comma; by default it is guessed"
    )
    parser.add_argument(
        "--task",
        choices=("classes", "number"),
        help="what the label is; by default a number where more than 50 numbers are in it",
    )
    parser.add_argument("--exclude", default="", help="columns to leave out, separated by commas")
    parser.add_argument(
        "--missing", action="append", default=[], help="text that stands for an empty field; repeat for more"
    )
    parser.add_argument("--latent-dim", type=int, help="latent dimension; by default that of the draft")
    parser.add_argument("--model", help="kind of model, with its defaults; that of the baselines too")
    parser.add_argument("--uplink", choices=("rows", "sums"), default="rows", help="what the hospitals send")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/demo"),
        help="where all is written; what an earlier demo made there is removed",
    )
    given = parser.parse_args()
    if given.data and not (given.label and given.site):
        parser.error("--data needs --label and --site")
    try:
        if given.data:
            excluded = tuple(name for name in given.exclude.split(",") if name)
            source = source_of(given.data, given.csv)
            if source.dialect != PLAIN:
                console.print(f"{given.data} is read with --csv {source.dialect.words}")
            tables = own_table(
                source, given.label, given.site, excluded, task=given.task, missing=given.missing
            )
        else:
            tables = breast_cancer()
        report = run(tables, given.out.resolve(), Wishes(given.latent_dim, given.model, given.uplink))
    except OdcError as error:
        console.print(for_terminal("odc-demo", error))
        return exit_code(error)
    except (CommandError, RuntimeError) as error:
        console.print(f"odc-demo: error: {error}")
        return 1
    (given.out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    print_tables(report)
    return 0
