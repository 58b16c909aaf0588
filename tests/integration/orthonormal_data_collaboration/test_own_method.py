"""Another package's alignment method: found by its entry point, checked, never loaded for an institution."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.alignment import InstalledMethodError, align, installed_names
from analyst_server.alignment.installed import GROUP
from orthonormal_data_collaboration import simulate
from protocol.errors import InputError

Parties = dict[str, tuple[NDArray[Any], NDArray[Any]]]

HEAD = """
import numpy as np
from orthonormal_data_collaboration import Solution
"""
RETURNS = f"{HEAD}\ndef align(reps, *, trusted=None): return "
FIRST_PARTY = f"""{HEAD}
def align(anchor_reps, *, trusted=None):
    target = anchor_reps[0]
    return Solution([np.linalg.lstsq(rep, target, rcond=None)[0] for rep in anchor_reps], target, "A_1")
"""
"""Least squares onto the first party."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a package with an alignment method, by pip from a wheel that hatchling builds."""

    def install(name: str, code: str, module: str = "their_alignment") -> None:
        source, target = tmp_path / f"source-{module}", tmp_path / "site-packages"
        source.mkdir()
        (source / f"{module}.py").write_text(code)
        (source / "pyproject.toml").write_text(
            f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{module.replace("_", "-")}"
version = "1.0"
[project.entry-points."{GROUP}"]
{name} = "{module}:align"
[tool.hatch.build.targets.wheel]
include = ["{module}.py"]
"""
        )
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
        offline = ["--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
        subprocess.run([*pip, *offline], check=True, timeout=300)
        monkeypatch.syspath_prepend(target)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


def test_a_round_is_played_with_it(parties: Parties, installed: Any) -> None:
    installed("first-party", FIRST_PARTY)
    assert "first-party" in installed_names()
    found = simulate(parties, random_state=0, alignment="first-party", model="logistic")
    assert found.method == "first-party"
    assert found["hospital-1"].score(*parties["hospital-2"]) > 0.8
    first, second = (found.members[name] for name in list(parties)[:2])
    np.testing.assert_allclose(first.change_of_basis, np.eye(found.terms.latent_dim), atol=1e-6)
    expected = np.linalg.lstsq(second.anchor_rep, first.anchor_rep, rcond=None)[0]
    np.testing.assert_allclose(second.change_of_basis, expected, atol=1e-5)
    turned = simulate(
        parties,
        random_state=0,
        alignment={"method": "first-party", "target": "haar", "seed": 1},
        model="logistic",
    )
    basis = turned.members["hospital-0"].change_of_basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(len(basis)), atol=1e-5)
    assert not np.allclose(basis, np.eye(len(basis)), atol=0.1)


def test_no_terms_name_it_and_nothing_loads_it_for_them(parties: Parties, installed: Any) -> None:
    installed("breaks", "raise SystemError('loaded')")
    terms = simulate(parties, random_state=0, model="logistic").terms
    with pytest.raises(ValueError, match="method"):
        type(terms).model_validate({**terms.model_dump(mode="json"), "alignment": {"method": "breaks"}})
    assert "their_alignment" not in sys.modules
    with pytest.raises(InstalledMethodError, match="cannot be loaded: loaded"):
        simulate(parties, random_state=0, alignment="breaks")


def test_a_method_of_ours_cannot_be_replaced(parties: Parties, installed: Any) -> None:
    installed("odc", "raise SystemError('loaded')")
    assert simulate(parties, random_state=0, alignment="odc", model="logistic").method == "odc"
    assert "their_alignment" not in sys.modules


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("align = 3", "is no function"),
        ("def align(reps, *, trusted=None): return reps", "returns list, expected a Solution"),
        (
            f"{HEAD}\ndef align(reps, *, trusted=None): return Solution([], reps[0], '')",
            "0 changes of basis for 2",
        ),
        (
            f"{RETURNS}Solution([np.eye(9)] * len(reps), reps[0], '')",
            r"G_0 has shape \(9, 9\), expected \(2, 2\)",
        ),
        (
            f"{RETURNS}Solution([np.eye(2)] * len(reps), reps[0][:1], '')",
            r"the target has shape \(1, 2\), expected \(5, 2\)",
        ),
        (
            f"{HEAD}\ndef align(reps, *, trusted=None):"
            " return Solution([np.eye(2) * np.nan] * len(reps), reps[0], '')",
            "G_0 has entries that are not finite",
        ),
    ],
)
def test_what_it_returns_is_checked(installed: Any, code: str, says: str) -> None:
    installed("theirs", code)
    reps = list(np.random.default_rng(0).standard_normal((2, 5, 2)))
    with pytest.raises(InstalledMethodError, match=says):
        align("theirs", reps, rng=np.random.default_rng(0))


def test_two_packages_with_one_name_are_named(installed: Any) -> None:
    installed("theirs", FIRST_PARTY)
    installed("theirs", FIRST_PARTY, module="another_alignment")
    reps = list(np.random.default_rng(0).standard_normal((2, 5, 2)))
    with pytest.raises(InstalledMethodError, match=r"another_alignment:align and their_alignment:align both"):
        align("theirs", reps, rng=np.random.default_rng(0))


def test_an_unknown_name_is_answered_with_the_known_ones(parties: Parties, installed: Any) -> None:
    installed("theirs", FIRST_PARTY)
    with pytest.raises(InputError) as refused:
        simulate(parties, alignment="their")
    assert "theirs" in refused.value.hint
    assert "isotropic" in refused.value.hint
