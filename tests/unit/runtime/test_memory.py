"""A process with the settings of `runtime.memory` returns what it frees."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import threading
import numpy as np
from runtime.memory import return_what_is_freed

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def work():
    np.ones(2**23)[0]  # from here on glibc would take arrays of up to 32 MiB from its heaps
    kept = []
    for _ in range(40):
        large = np.ones(2**17)
        kept.append(bytes(3000))  # behind it in the heap, and stays there
        del large
    several = [np.ones(2**17) for _ in range(40)]
    held.append((kept, several[-1][:1].copy()))

held = []
return_what_is_freed()
before = resident_mb()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resident_mb() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has these settings")
def test_what_threads_have_freed_is_returned() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert float(done.stdout) < 8
