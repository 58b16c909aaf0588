from __future__ import annotations

import importlib.metadata
import re

from benchmarks import footprint

DISTRIBUTION = "orthonormal-data-collaboration"
MOST_TODAY = 26
"""With our own, on Linux with Python 3.11; `footprint_packages` asks for fewer."""


def required(name: str, extra: str = "") -> set[str]:
    """Return what is installed with a distribution, itself included, by what the distributions here say."""
    found, waiting = set[str](), [(name, extra)]
    while waiting:
        one, with_extra = waiting.pop()
        if one in found:
            continue
        try:
            requirements = importlib.metadata.requires(one) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or version of Python
        found.add(one)
        for line in requirements:
            words, _, marker = line.partition(";")
            named = re.match(r"([A-Za-z0-9._-]+)", words)
            assert named
            asked = re.search(r"extra == ['\"]([^'\"]+)['\"]", marker)
            if asked is None or (with_extra and asked[1] == with_extra):
                waiting.append((re.sub(r"[-_.]+", "-", named[1]).lower(), ""))
    return found


def test_an_institution_installs_nothing_of_the_server_and_no_more_than_today() -> None:
    found = required(DISTRIBUTION, "client")
    assert {"cryptography", "numpy", "pyarrow", "httpx"} <= found
    assert not found & footprint.SERVER_LIBRARIES
    assert len(found) <= MOST_TODAY, sorted(found)


def test_the_server_is_recognised() -> None:
    assert required(DISTRIBUTION, "server") >= footprint.SERVER_LIBRARIES


def test_claims_are_of_what_is_installed() -> None:
    few = footprint.report_of(
        {"ours": 2_000_000, "pyarrow": 150_000_000}, {"ours": 2_000_000, "pyarrow": 100_000_000}
    )
    assert [claim.holds for claim in few.claims] == [True, True, True, True]
    assert [row["package"] for row in few.rows] == ["pyarrow", "ours"]
    assert [claim.value for claim in few.claims] == [2, 152, 102, 0]
    installed = {f"library-{number}": 11_000_000 for number in range(24)} | {"scipy": 1}
    many = footprint.report_of(installed, installed)
    assert [claim.holds for claim in many.claims] == [False, False, False, False]
