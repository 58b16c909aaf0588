from __future__ import annotations

import subprocess
import sys

import pytest

LOWERED = """
import resource
from runtime.confinement import lower_limits
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 2048))
lower_limits({{"RLIMIT_NOFILE": {value}, "RLIMIT_THAT_NO_SYSTEM_HAS": 1}})
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "value", "lowered"),
    [(256, 1024, 256), (256, 128, 128), (2048, 1024, 1024), (256, 65536, 256)],
)
def test_a_limit_is_lowered_and_never_raised(soft: int, value: int, lowered: int) -> None:
    code = LOWERED.format(soft=soft, value=value)
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == [str(lowered)] * 2


def test_where_nothing_is_limited_the_limit_is_what_was_asked_for() -> None:
    code = """
import resource
from runtime.confinement import lower_limits
assert resource.getrlimit(resource.RLIMIT_DATA) == (resource.RLIM_INFINITY,) * 2
lower_limits({"RLIMIT_DATA": 2**40})
print(*resource.getrlimit(resource.RLIMIT_DATA))
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == [str(2**40)] * 2


def test_as_many_open_files_are_allowed_as_the_system_allows() -> None:
    code = """
import resource
from runtime.confinement import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048))
allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["2048"] * 2
