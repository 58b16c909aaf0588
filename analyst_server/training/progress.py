"""How far a computation is: told by those who compute to whoever listens in their process, if anybody does.

A hook of the process and no argument, because what counts is deep inside a fit and what listens outside of
it. Nothing that is computed depends on it, and without a listener it costs a comparison.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, get_args

Stage = Literal["checking", "aligning", "training", "judging"]
Unit = Literal["epochs", "trees", "steps", "candidates"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
LOOK_S: Final = 0.25
"""How often a fit is looked at that counts for itself."""
MOST: Final = 2**24 - 1


class Told(NamedTuple):
    """How far a computation is; ``of`` is 0 where nobody knows how much there is to do."""

    stage: Stage
    done: int = 0
    of: int = 0
    unit: Unit = "steps"

    def packed(self) -> int:
        """Return it as one number of less than 64 bits, which two processes share without a lock."""
        place = STAGES.index(self.stage) + 1, UNITS.index(self.unit)
        return (place[0] << 56) | (place[1] << 48) | (min(self.done, MOST) << 24) | min(self.of, MOST)

    @classmethod
    def unpacked(cls, number: int) -> Told | None:
        """Return what `packed` was asked of, None for 0."""
        if not number:
            return None
        stage, unit = STAGES[(number >> 56) - 1], UNITS[(number >> 48) & 0xFF]
        return cls(stage, (number >> 24) & MOST, number & MOST, unit)


class _Teller:
    def __init__(self) -> None:
        self.listener: Callable[[Told], None] | None = None
        self.stage: Stage = "checking"
        self.is_counting = False


_teller = _Teller()


def listen(listener: Callable[[Told], None] | None) -> None:
    """Let ``listener`` be told from now on, in this process; it may be called from another thread."""
    _teller.listener = listener


def begin(stage: Stage) -> None:
    """Tell that a stage begins."""
    _teller.stage, _teller.is_counting = stage, False
    _tell(Told(stage))


@contextmanager
def counting(of: int, unit: Unit) -> Iterator[Callable[[int], None]]:
    """Yield what is told how much is done; inside of another count it tells nobody."""
    if _teller.listener is None or _teller.is_counting:
        yield lambda _done: None
        return
    _teller.is_counting = True
    stage = _teller.stage
    try:
        _tell(Told(stage, 0, of, unit))
        yield lambda done: _tell(Told(stage, done, of, unit))
    finally:
        _teller.is_counting = False
        _tell(Told(stage))


def counted_steps(of: int) -> Iterator[int]:
    """Yield the numbers below ``of``, each told as it is done."""
    with counting(of, "steps") as note:
        for step in range(of):
            yield step
            note(step + 1)


@contextmanager
def following(look: Callable[[], int], of: int, unit: Unit) -> Iterator[None]:
    """Count what only a look at it from another thread tells, as long as the block runs."""
    if _teller.listener is None or _teller.is_counting:
        yield
        return
    with counting(of, unit) as note:
        is_over = threading.Event()

        def run() -> None:
            while not is_over.wait(LOOK_S):
                note(look())

        thread = threading.Thread(target=run, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _tell(told: Told) -> None:
    if _teller.listener is not None:
        _teller.listener(told)
