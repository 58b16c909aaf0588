"""What a researcher reads who installed another extra."""

from __future__ import annotations

import subprocess
import sys

IMPORT = """
import sys
sys.modules["threadpoolctl"] = None  # as if it were not installed
import orthonormal_data_collaboration
"""


def test_an_import_without_its_libraries_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        "ModuleNotFoundError: import of threadpoolctl halted; None in sys.modules",
        "install the package with its extra: [research]",
    ]
