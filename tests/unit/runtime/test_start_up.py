from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from runtime.start_up import loading

SETTING = "PYDANTIC_DISABLE_PLUGINS"
PROGRAM = """
import gc
from runtime.start_up import loading
with loading():
    import pydantic
    assert not gc.isenabled()
assert gc.isenabled()
import os
print(os.environ["PYDANTIC_DISABLE_PLUGINS"])
"""


@pytest.mark.parametrize(("given", "found"), [({}, "__all__"), ({SETTING: "mine"}, "mine")])
def test_no_plug_in_sees_our_messages_unless_the_environment_asks_for_it(
    given: dict[str, str], found: str
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != SETTING}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == found


def test_garbage_is_collected_again_after_an_import_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "__all__")
    with pytest.raises(ModuleNotFoundError), loading():
        raise ModuleNotFoundError
    assert gc.isenabled()
    gc.unfreeze()


ENDING = """
import atexit, ctypes, sys
from runtime.start_up import as_whole_process
library = ctypes.CDLL(None)

def main():
    # as an object of a native library that is freed while one of its threads runs
    library.on_exit(ctypes.cast(library.abort, ctypes.c_void_p), None)
    atexit.register(print, "left in order")
    print("said")
    {ends}

as_whole_process(main) if {is_whole} else main()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "on_exit"), reason="needs the C library of GNU")
@pytest.mark.parametrize(
    ("ends", "code"),
    [("pass", 0), ("sys.exit()", 0), ("sys.exit(7)", 7), ("sys.exit('no')", 1), ("1 / 0", 1)],
)
def test_a_process_ends_with_its_exit_code_whatever_native_libraries_do(ends: str, code: int) -> None:
    def ended(*, is_whole: bool) -> subprocess.CompletedProcess[str]:
        program = ENDING.format(ends=ends, is_whole=is_whole)
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ended(is_whole=False).returncode == -signal.SIGABRT
    whole = ended(is_whole=True)
    assert whole.returncode == code
    assert whole.stdout.splitlines() == ["said", "left in order"]
    assert ("ZeroDivisionError" in whole.stderr) == (ends == "1 / 0")


@pytest.mark.skipif(find_spec("pandas") is None, reason="what is left out has to be there")
def test_a_library_that_is_left_out_is_as_if_it_were_not_installed() -> None:
    """Arrow loads pandas at its first array, if it can: a process that is `odc` never does."""
    program = "import pyarrow, sys; {}; pyarrow.array([1]); print('pandas' in sys.modules)"
    without = "from user_client.__main__ import load; load()"
    found = [
        subprocess.run(
            [sys.executable, "-c", program.format(line)], capture_output=True, text=True, check=True
        ).stdout.strip()
        for line in ("pass", without)
    ]
    assert found == ["True", "False"]


def test_odc_loads_what_draws_bars_for_a_terminal_alone() -> None:
    """Half a hundred modules of Rich; httpx would load it too, for a command of its own."""
    program = (
        "import sys; from user_client.__main__ import load; load()\n"
        "print('httpx' in sys.modules, 'rich' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.split() == ["True", "False"]


@pytest.mark.parametrize("words", ["join", "consortium invite", "token create", "certificates"])
def test_a_command_without_numbers_starts_without_the_libraries_of_numbers(words: str) -> None:
    """They are half of the time in which `odc` starts."""
    program = (
        "import sys; from user_client.__main__ import load\n"
        f"try: load()({words.split()!r} + ['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pyarrow', 'user_client.tables'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "Usage:" in found
    assert found.splitlines()[-1] == "[]"
