"""Fuzzes one target, in a process of its own: ``python -m tests.fuzz.one TARGET RUNS SECONDS SEED``.

With atheris what guides it is the coverage of our packages, without it which outcomes are new. Either way
it begins with the seeds and the kept inputs, writes what was new to ``build/fuzz/TARGET/inputs`` and the
first finding to ``build/fuzz/TARGET/findings``, and says at the end how many inputs it has run.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import random
import signal
import sys
import time
import traceback
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

OURS: Final = ["protocol", "metering", "runtime", "pages", "analyst_server", "user_client"]
LONGEST_RUN_S: Final = 40
"""An input that takes longer is a finding."""
DONE: Final = "runs:"
"""Begins the last line of the loop without atheris; libFuzzer has one of its own."""


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def main(name: str, runs: int, seconds: int, seed: int) -> int:
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    atheris: Any = importlib.import_module("atheris") if has_atheris() else None
    with atheris.instrument_imports(include=OURS) if atheris else nullcontext():
        from tests.fuzz.kept import BUILD, CORPUS, inputs_in, name_of
        from tests.fuzz.target import ready
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    with ready(target) as run:
        seeds = [*target.seeds(), *inputs_in(CORPUS / name)]
        inputs, findings = BUILD / name / "inputs", BUILD / name / "findings"
        for each in (inputs, findings):
            each.mkdir(parents=True, exist_ok=True)
        for data in seeds:
            (inputs / name_of(data)).write_bytes(data)
        if atheris:
            _guide(atheris, run, seeds, inputs, findings, runs, seconds, seed)
        return _loop(run, seeds, inputs, findings, runs, seconds, seed)


def _guide(
    atheris: Any,
    run: Any,
    seeds: list[bytes],
    inputs: Path,
    findings: Path,
    runs: int,
    seconds: int,
    seed: int,
) -> None:
    """Let libFuzzer try inputs; it ends the process."""
    from tests.fuzz.mutation import LONGEST_INPUT, mutated

    def mutate(data: bytes, longest: int, drawn: int) -> bytes:
        rng = random.Random(drawn)
        if rng.random() < 0.4:
            return mutated(data, rng.choice(seeds), rng)[:longest]
        found: bytes = atheris.Mutate(data, longest)
        return found

    options = [
        f"-runs={runs}", f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST_INPUT}",
        f"-timeout={LONGEST_RUN_S}", f"-artifact_prefix={findings}/", "-rss_limit_mb=3000",
        "-print_final_stats=1", "-verbosity=0", "-reload=0", "-len_control=0",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(inputs)], run, custom_mutator=mutate)
    atheris.Fuzz()


def _loop(
    run: Any, seeds: list[bytes], inputs: Path, findings: Path, runs: int, seconds: int, seed: int
) -> int:
    from tests.fuzz.kept import name_of
    from tests.fuzz.mutation import mutations

    signal.signal(signal.SIGALRM, _too_long)
    made, known, count, ends_at = mutations(seeds, seed), set[str](), 0, time.monotonic() + seconds
    for data in seeds:
        known.add(run(data))
    while count < runs and (not seconds or time.monotonic() < ends_at):
        data = next(made)
        count += 1
        signal.alarm(LONGEST_RUN_S)
        try:
            found = run(data)
        except Exception:  # noqa: BLE001  # whatever it is, it is the finding
            traceback.print_exc()
            (findings / name_of(data)).write_bytes(data)
            print(DONE, count, flush=True)
            return 1
        if found not in known:
            known.add(found)
            (inputs / name_of(data)).write_bytes(data)
            made.send(True)
    signal.alarm(0)
    print(DONE, count, flush=True)
    return 0


def _too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"an input took more than {LONGEST_RUN_S} s")


if __name__ == "__main__":
    _, name, *numbers = sys.argv
    sys.exit(main(name, *map(int, numbers)))
