"""The process that evaluates the analyst's model: no secret, no file, no network, so much memory and time.

Started by `user_client.onnx_model.process` as ``python -m``, with an empty environment. It reads the model
and rows from its input and writes answers to its output; its limits are set before the model is read.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO, Final

import numpy as np

from runtime.confinement import forbid_tracing, lower_limits, own_bytes
from runtime.denormals import tiny_as_zero
from user_client.onnx_model.evaluation import Evaluation
from user_client.onnx_model.form import from_bytes
from user_client.onnx_model.wire import RefusedModelError

if sys.platform != "win32":
    import resource

HEAD: Final = struct.Struct("<QQII")
"""Bytes of the model, bytes of memory beside those of the program, seconds of the processor to read it, and
bytes of the forms that it may have."""
REQUEST: Final = struct.Struct("<IIII")
"""Rows, their numbers, bytes of the output's name, and seconds of the processor to answer.

Rows of no numbers ask for the rows that the model is made of.
"""
ANSWER: Final = struct.Struct("<BII")
"""Whether it is refused; then rows and numbers of the answer, or bytes of the reason and 0."""
_OPEN_FILES: Final = 3
"""Input, output and errors: no file and no socket can be opened."""


@tiny_as_zero()  # an earlier analyst may have weights with which each product takes a hundred times as long
def main() -> None:
    """Serve one model until the input ends."""
    given, answers = sys.stdin.buffer, sys.stdout.buffer
    model_bytes, memory_bytes, seconds, form_bytes = HEAD.unpack(_exactly(given, HEAD.size))
    forms, profile = from_bytes(_exactly(given, form_bytes))
    np.zeros((8, 8)) @ np.zeros((8, 8))  # what numpy loads late, it loads now
    _bound(memory_bytes)
    _bound_time(seconds)
    try:
        evaluation = Evaluation(_exactly(given, model_bytes), forms, profile)
    except (RefusedModelError, MemoryError) as error:
        _refuse(answers, error)
        return
    answers.write(ANSWER.pack(0, 0, 0))
    answers.flush()
    while head := given.read(REQUEST.size):
        count, width, name_bytes, seconds = REQUEST.unpack(head)
        output = _exactly(given, name_bytes).decode()
        rows = np.frombuffer(_exactly(given, 4 * count * width), "<f4").reshape(count, width)
        _bound_time(seconds)
        try:
            found = evaluation.run(rows, output) if width else evaluation.shared_rows()
        except (RefusedModelError, MemoryError) as error:
            _refuse(answers, error)
            continue
        answers.write(ANSWER.pack(0, *found.shape))
        answers.write(np.ascontiguousarray(found, "<f4").tobytes())
        answers.flush()


def _bound(memory_bytes: int) -> None:
    """Take away what the evaluation of a model does not need; on Windows there are no such limits."""
    forbid_tracing()
    lower_limits(
        {
            "RLIMIT_CORE": 0,
            "RLIMIT_FSIZE": 0,
            "RLIMIT_NOFILE": _OPEN_FILES,
            "RLIMIT_NPROC": 0,
            "RLIMIT_AS": own_bytes() + memory_bytes,
        }
    )


def _bound_time(seconds: int) -> None:
    """Let the kernel end this process after so many more seconds of the processor."""
    if sys.platform == "win32":
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _refuse(answers: BinaryIO, error: Exception) -> None:
    reason = "asks for more memory than a model may take" if isinstance(error, MemoryError) else str(error)
    said = reason.encode("ascii", "backslashreplace")
    answers.write(ANSWER.pack(1, len(said), 0) + said)
    answers.flush()


def _exactly(given: BinaryIO, count: int) -> bytes:
    data = given.read(count)
    if len(data) != count:
        sys.exit(0)  # who asked is gone
    return data


if __name__ == "__main__":
    main()
