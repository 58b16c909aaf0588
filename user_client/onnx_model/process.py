"""Run the analyst's model in a process that has no secret, and end it if it takes too much."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.limits import MAX_CLASSES
from runtime.confinement import ONE_THREAD, kept_environment
from user_client.errors import ModelRefusedError
from user_client.onnx_model.child import ANSWER, HEAD, REQUEST
from user_client.onnx_model.form import Form, to_bytes
from user_client.onnx_model.profiles import OF_A_ROUND, Profile

MEMORY_BYTES: Final = 2**30
"""What a model may take, beside sixteen times the size of its file: its lists of numbers as arrays."""
MEMORY_PER_BYTE: Final = 16
BATCH_NUMBERS: Final = 2**22
"""Of one request: 16 MB."""
SECONDS: Final = 30
"""For any model and for any request, beside the time for its size."""
SECONDS_PER_MB: Final = 1
SECONDS_PER_ROW: Final = 0.02
"""The nearest of a million rows with a hundred numbers each take about as long."""
_REASON_BYTES: Final = 1000
_OUT_OF_TIME: Final = -getattr(signal, "SIGXCPU", 2**31)
"""The code of a process that the kernel ends because it took its time; Windows has none."""
_Process = subprocess.Popen[bytes]


class Model:
    """A model of the analyst, open to be run, by several threads if need be.

    Another process checks and evaluates it, so that nothing the model does there reaches the memory, files or
    connections of this one. Raises `ModelRefusedError` if it is outside the profile of docs/protocol.md, or
    has none of the forms that it may have, if any are given.
    """

    def __init__(self, onnx_file: bytes, forms: Sequence[Form] = (), profile: Profile = OF_A_ROUND) -> None:
        self._file = onnx_file
        self._forms = to_bytes(forms, profile)
        self._lock = threading.Lock()
        self._process: _Process | None = None
        with self._lock:
            self._started()

    def __repr__(self) -> str:
        return f"<Model of {len(self._file)} bytes>"

    def run(self, aligned_rep: NDArray[np.float32], output: str) -> NDArray[np.float32]:
        """Return one output for aligned rows, (n, l), or the only one if the name is empty."""
        rows = np.ascontiguousarray(aligned_rep, "<f4")
        step = max(1, BATCH_NUMBERS // max(1, rows.shape[1]))
        with self._lock:
            process = self._started()
            parts = [
                self._asked(process, rows[start : start + step], output)
                for start in range(0, max(1, len(rows)), step)
            ]
        return np.concatenate(parts)

    def shared_rows(self) -> NDArray[np.float32]:
        """Return the training rows that the model names, (0, 0) if none: `Evaluation.shared_rows`."""
        with self._lock:
            process, seconds = self._started(), SECONDS + SECONDS_PER_MB * len(self._file) // 2**20
            with _within(process, seconds) as (given, answers):
                given.write(REQUEST.pack(0, 0, 0, seconds))
                given.flush()
                count, width = _answered(answers)
                if 4 * count * width > 2 * len(self._file):
                    raise ModelRefusedError("answers with more rows than it can have")
                return np.frombuffer(_exactly(answers, 4 * count * width), "<f4").reshape(count, width)

    def _started(self) -> _Process:
        """Return the process, a new one if the last was ended."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        process = _spawned()
        self._process = process
        weakref.finalize(self, _ended, process)
        seconds = SECONDS + SECONDS_PER_MB * len(self._file) // 2**20
        memory = MEMORY_BYTES + MEMORY_PER_BYTE * len(self._file)
        with _within(process, seconds) as (given, answers):
            given.write(HEAD.pack(len(self._file), memory, seconds, len(self._forms)))
            given.write(self._forms)
            given.write(self._file)
            given.flush()
            _answered(answers)
        return process

    def _asked(self, process: _Process, rows: NDArray[np.float32], output: str) -> NDArray[np.float32]:
        seconds, name = SECONDS + int(SECONDS_PER_ROW * len(rows)), output.encode()
        with _within(process, seconds) as (given, answers):
            given.write(REQUEST.pack(*rows.shape, len(name), seconds) + name)
            given.write(rows.tobytes())
            given.flush()
            count, width = _answered(answers)
            if count != len(rows) or width > MAX_CLASSES:
                raise ModelRefusedError("answers with another shape than it was asked for")
            return np.frombuffer(_exactly(answers, 4 * count * width), "<f4").reshape(count, width)


def _spawned() -> _Process:
    """Start the process: of this machine it gets the program and nothing else."""
    root = Path(__file__).parents[2]
    ours = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "user_client.onnx_model.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=kept_environment({**ONE_THREAD, **ours}),
            start_new_session=True,  # an interrupt from the keyboard is for us, who then end it
        )
    except OSError as error:
        raise InputError(f"the process that evaluates the model cannot start ({error.strerror})") from None


@contextmanager
def _within(process: _Process, seconds: int) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Lend the two ends of a process; it is ended if it does not answer in time, or if anything fails."""
    assert process.stdin is not None  # noqa: S101  # how it was started
    assert process.stdout is not None  # noqa: S101  # as well
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield process.stdin, process.stdout
    except (EOFError, OSError):
        _ended(process)
        if late.is_set() or process.returncode == _OUT_OF_TIME:
            raise ModelRefusedError(f"asks for more than {seconds} seconds") from None
        raise ModelRefusedError(f"ended the process that evaluates it (code {process.returncode})") from None
    except BaseException:
        _ended(process)
        raise
    finally:
        timer.cancel()


def _answered(answers: IO[bytes]) -> tuple[int, int]:
    """Return the shape of an answer; raises `ModelRefusedError` with the reason if there is none."""
    is_refused, count, width = ANSWER.unpack(_exactly(answers, ANSWER.size))
    if is_refused:
        reason = _exactly(answers, min(count, _REASON_BYTES)).decode("ascii", "replace")
        raise ModelRefusedError(reason)
    return count, width


def _exactly(answers: IO[bytes], count: int) -> bytes:
    data = answers.read(count)
    if len(data) != count:
        raise EOFError
    return data


def _ended(process: _Process) -> None:
    """End a process, whatever it does, and leave nothing of it."""
    process.kill()
    for end in (process.stdin, process.stdout):
        with suppress(OSError):  # what was not written goes nowhere
            if end is not None:
                end.close()
    process.wait()
