"""Plays the phases of a round at some sizes, and says of each what was counted and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

from analyst_server.services import probing, work
from analyst_server.services.predicting import MEMORY_OF
from analyst_server.services.work import Probes, Size
from benchmarks.predicted.computing import MODELS, compute
from benchmarks.predicted.fitting import Point
from benchmarks.predicted.institution import consortium
from benchmarks.predicted.points import Points
from benchmarks.predicted.server import receiving

T = TypeVar("T")


def played(folder: Path, points: Points) -> Iterator[Point]:
    """Yield every quantity of every point; what the machine can do is measured beside each."""
    yield from _sent(folder / "institution", points)
    yield from _taken(folder / "server", points)
    yield from _computed(folder / "compute", points)


def _sent(folder: Path, points: Points) -> Iterator[Point]:
    folder.mkdir()
    with consortium(folder) as scene:
        for rows, features, latent_dim, name in points.institution:
            found, probes = _probed(partial(scene.send, rows, features, latent_dim, name))
            at, size = _words(found.size, name), found.size
            prepare, send = found.prepare, found.contribute
            terms = work.prepare_terms(size, MODELS[name]())
            yield Point("prepare", at, terms, prepare.processor_s, probes)
            yield Point("send", at, work.send_terms(size), send.processor_s, probes)
            yield Point(MEMORY_OF["prepare"], at, work.prepare_memory(size), prepare.peak_mb)


def _taken(folder: Path, points: Points) -> Iterator[Point]:
    folder.mkdir()
    with receiving(folder) as server:
        for rows, latent_dim in points.server:
            (size, seconds), probes = _probed(partial(server.take, rows, latent_dim))
            yield Point("take", _words(size), work.take_terms(size), seconds, probes)


def _computed(folder: Path, points: Points) -> Iterator[Point]:
    folder.mkdir()
    for number, (size, name) in enumerate(points.compute):
        found, probes = _probed(partial(compute, folder / str(number), size, name))
        at, model = _words(size, name), MODELS[name]()
        yield Point("align", at, work.align_terms(size), found.align_s, probes)
        yield Point("train", at, work.train_terms(size, model), found.train_s, probes)
        yield Point(MEMORY_OF["align"], at, work.align_memory(size), found.align_mb)
        yield Point(MEMORY_OF["train"], at, work.train_memory(size, model), found.train_mb)


def _probed(act: Callable[[], T]) -> tuple[T, Probes]:
    """Return what some work returns, and the better of what the machine could do before it and after it."""
    before = probing.measure()
    found = act()
    after = asdict(probing.measure())
    return found, Probes(**{kind: max(rate, after[kind]) for kind, rate in asdict(before).items()})


def _words(size: Size, model: str = "") -> str:
    words = f"c={size.parties} n={size.rows} m={size.features} l={size.latent_dim} a={size.anchor_rows}"
    return f"{words} {model}".strip()
