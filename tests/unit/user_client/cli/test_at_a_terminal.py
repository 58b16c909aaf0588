"""What a person at a real terminal is asked before something final, and sees while waiting."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

ASK = """
from user_client.cli.options import is_agreed
print(is_agreed("Send this?"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals to make")
@pytest.mark.parametrize(("answer", "is_agreed"), [(b"n\n", False), (b"y\n", True)])
def test_what_was_typed_before_the_question_is_no_answer(answer: bytes, is_agreed: bool) -> None:
    ours, terminal = os.openpty()
    try:
        os.write(ours, b"y\nn\ny\n")
        asking = subprocess.Popen(
            [sys.executable, "-c", ASK],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert asking.stderr is not None
        assert asking.stderr.read(len("Send this?")) == b"Send this?"
        os.write(ours, answer)
        said, _ = asking.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(terminal)
    assert said.split()[-1].decode() == str(is_agreed)


WAIT = """
import logging, time
from runtime.logs import set_up
from user_client.cli.progress import busy
set_up(logging.Formatter("odc: %(message)s"), "INFO")
with busy(False, "waiting"):
    time.sleep(0.5)  # until the wait is drawn
    logging.getLogger("odc").info("no answer")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals to make")
def test_what_is_logged_during_a_wait_stands_on_a_line_of_its_own() -> None:
    ours, terminal = os.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    waiting = subprocess.Popen([sys.executable, "-c", WAIT], stderr=terminal, env=environment)
    os.close(terminal)
    written = b""
    with suppress(OSError):  # as reading ends when nobody has the terminal any more
        while piece := os.read(ours, 4096):
            written += piece
    os.close(ours)
    assert waiting.wait(60) == 0
    assert b"waiting" in written
    assert b"odc: no answer" in written
    assert b"waitingodc" not in written
