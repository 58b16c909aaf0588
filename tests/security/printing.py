"""How the tests of attacks say what the attacker got: `pytest -rP` shows it."""

from __future__ import annotations


def got(attacker: str, **figures: float | int | str) -> None:
    """Print one line of figures."""
    told = ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in figures.items()
    )
    print(f"{attacker}: {told}")  # noqa: T201  # what these tests are read for
