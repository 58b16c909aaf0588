"""The command line of the fake analyst."""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fake_analyst.client import OUR_ENVIRONMENT, OURS, PLACES, Client, Step
from fake_analyst.honest import Honest
from fake_analyst.scenario import Scenario
from fake_analyst.scenarios import SCENARIOS
from fake_analyst.trial import Trial, Verdict
from protocol.errors import InputError, OdcError
from runtime.terminal import exit_code, for_terminal, printable

FAILED: Final = 4
"""The exit code if the client has failed a scenario, as of `odc conformance`."""
_WIDTH: Final = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a client, print what was found, and return the exit code."""
    given = _parser().parse_args(arguments)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it tells of each answer that we cut off
    logging.getLogger("analyst_server").setLevel(logging.ERROR)
    try:
        chosen = _chosen(given)
        if given.list:
            print(
                "\n".join(
                    f"{one.name:<42} {one.step:<11} section {one.section}: {one.does}" for one in chosen
                )
            )
            return 0
        found = try_client(_client(given), chosen, given.keep, lambda verdict: _tell(verdict, given.json))
    except OdcError as error:
        print(for_terminal("odc-fake-analyst", error), file=sys.stderr)
        return exit_code(error)
    return _summed_up(found, as_json=given.json)


def try_client(
    client: Client,
    scenarios: Sequence[Scenario],
    keep: Path | None = None,
    told: Callable[[Verdict], None] = lambda _verdict: None,
) -> list[Verdict]:
    """Found a consortium, serve a fake analyst, play the scenarios with a client, and take it all down.

    ``keep`` is a directory for what the analyst and the client leave behind; else nothing is left.
    """
    with tempfile.TemporaryDirectory(prefix="odc-fake-analyst-") as made:
        directory = keep or Path(made)
        honest = Honest(directory / "consortium")
        with honest.served():
            return Trial(honest, client, directory / "client").run(scenarios, told)


def _parser() -> argparse.ArgumentParser:
    places = ", ".join(f"{{{one}}}" for one in PLACES)
    parser = argparse.ArgumentParser(
        prog="odc-fake-analyst",
        description=(
            "Try a client with an analyst that lies or stumbles, in one way at a time. Without commands"
            " it tries `odc`."
        ),
        epilog=f"In commands and values, these stand for what is filled in: {places}.",
    )
    for step in Step:
        parser.add_argument(
            f"--{step}", metavar="COMMAND", help=f"how the client does it, for `odc`: {OURS[step]}"
        )
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="set this for the client's commands"
    )
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a command may take (60)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="play this scenario alone"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="play N scenarios, drawn by --seed")
    parser.add_argument("--seed", type=int, help="draws the sample; by default another one each time")
    parser.add_argument("--list", action="store_true", help="list the scenarios, and play none")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave in this directory what both sides have written"
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    return parser


def _client(given: argparse.Namespace) -> Client:
    commands = {step: getattr(given, step) for step in Step if getattr(given, step)}
    told: dict[str, str] = {}
    for one in given.env:
        name, is_set, value = one.partition("=")
        if not is_set:
            raise InputError(f"--env takes NAME=VALUE, got {one}")
        told[name] = value
    environment: Mapping[str, str] = told if commands else {**OUR_ENVIRONMENT, **told}
    return Client(commands or dict(OURS), environment, given.timeout)


def _chosen(given: argparse.Namespace) -> list[Scenario]:
    known = {one.name: one for one in SCENARIOS}
    if unknown := [name for name in given.only if name not in known]:
        raise InputError(f"no scenario has the name {unknown[0]}; --list has them all")
    chosen = [known[name] for name in given.only] or list(SCENARIOS)
    if given.sample is None:
        return chosen
    seed = given.seed if given.seed is not None else time.time_ns() % 2**32
    print(f"a sample of {given.sample} scenarios, --seed {seed}", file=sys.stderr)
    drawn = set(random.Random(seed).sample(range(len(chosen)), min(given.sample, len(chosen))))  # noqa: S311  # no secret
    return [one for number, one in enumerate(chosen) if number in drawn]


def _tell(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        return
    print(f"{verdict.outcome:<8} {verdict.name} ({verdict.step}, {verdict.seconds:.1f} s)", flush=True)
    if verdict.outcome in ("failed", "advised"):
        said = f"section {verdict.section}: {verdict.says}"
        for what in (f"the analyst {verdict.does}", said, f"the client: {verdict.detail}"):
            print(textwrap.indent(textwrap.fill(what, _WIDTH), " " * 9))
        print(textwrap.indent(printable(verdict.output[-2000:]).rstrip(), " " * 9 + "> "))


def _summed_up(found: Sequence[Verdict], *, as_json: bool) -> int:
    count = {
        name: sum(one.outcome == name for one in found) for name in ("passed", "failed", "advised", "skipped")
    }
    if as_json:
        print(json.dumps({"scenarios": [one.to_json() for one in found], **count}, indent=2))
    else:
        print(", ".join(f"{number} {name}" for name, number in count.items()))
    return FAILED if count["failed"] else 0
