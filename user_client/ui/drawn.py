"""The charts of an institution's pages: what would leave and its risk, and what explains the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from markupsafe import Markup

from pages.charts import Bar, Interval, bars, intervals
from pages.numbers import size
from user_client.privacy.reduction import ReductionRisk
from user_client.sdk.explanation import Explanation
from user_client.sdk.prepared import Prepared

_MOST_BARS: Final = 20
_MOST_AXES: Final = 12


def leaving_charts(prepared: Prepared) -> list[Markup]:
    """Return the figures of what would leave and of its risk; of sums and of no rows, only what leaves."""
    found = [_arrays(prepared)]
    if prepared.hidden_share is not None:
        found.append(_shares(prepared.hidden_share, prepared.collusion_error))
    if prepared.information is not None:
        found.append(
            bars(
                "Bits of a row",
                f"A row holds {prepared.information.row_bits:.0f} bits; what leaves of it can carry at most"
                f" {prepared.information.sent_bits:.0f}.",
                [
                    ("in the row", [_bits(prepared.information.row_bits, "--formula")]),
                    ("can leave", [_bits(prepared.information.sent_bits, "--ours")]),
                ],
            )
        )
    if (rebuilt := _rebuilt(prepared)) is not None:
        found.append(rebuilt)
    if (axes := _axes(prepared)) is not None:
        found.append(axes)
    return found


def explanation_chart(found: Explanation) -> Markup:
    """Return a bar for each of the columns that weigh most."""
    columns = found.columns[:_MOST_BARS]
    first = ", ".join(column.name for column in columns[:3])
    return bars(
        "What moves the answers: mean absolute Shapley value",
        f"Most weight has {first}.",
        [(column.name, [Bar(column.shapley, "--ours", f"{column.shapley:.3g}")]) for column in columns],
    )


def answers_chart(counts: Mapping[str, int]) -> Markup:
    """Return how many rows are predicted to be of each class."""
    said = ", ".join(f"{name}: {count:,}" for name, count in counts.items())
    rows = [(name, [Bar(count, "--ours", f"{count:,}")]) for name, count in counts.items()]
    return bars("Predicted classes", f"Rows by predicted class: {said}.", rows)


def _arrays(prepared: Prepared) -> Markup:
    rows: Sequence[tuple[str, Sequence[Bar]]] = [
        ("formula (3)", [Bar(prepared.formula_bytes, "--formula", size(prepared.formula_bytes))]),
        *(
            (array.name, [Bar(array.payload_bytes, "--ours", size(array.payload_bytes))])
            for array in prepared.arrays
        ),
    ]
    said = f"{size(prepared.payload_bytes)} would leave; formula (3) says {size(prepared.formula_bytes)}."
    return bars("What would leave, in bytes", said, rows)


def _shares(hidden: ReductionRisk, collusion: ReductionRisk | None) -> Markup:
    rows = [_interval("projected away", hidden, "--ours")]
    if collusion is not None:
        rows.append(_interval("off in collusion", collusion, "--two"))
    top = max(1.0, *(row.value for row in rows))
    said = (
        f"Of half of the rows, {hidden.median:.0%} or more is projected away; of every row,"
        f" {hidden.minimum:.0%} or more."
    )
    return intervals(
        "Share of a row along the axes that are projected away: from the least to the median",
        said,
        rows,
        (0, top),
        _percent,
    )


def _interval(label: str, risk: ReductionRisk, colour: str) -> Interval:
    return Interval(label, risk.median, risk.minimum, risk.median, _percent(risk.median), colour)


def _rebuilt(prepared: Prepared) -> Markup | None:
    """Return what attacks have rebuilt of rows, beside guessing; None if none was tried."""
    ran = [attack for attack in prepared.attacks if attack.ran and attack.right_values is not None]
    if not ran:
        return None
    rows = [
        (
            attack.name,
            [
                Bar(attack.right_values or 0, "--one", _percent(attack.right_values or 0)),
                Bar(attack.guessed_values or 0, "--formula", _percent(attack.guessed_values or 0)),
            ],
        )
        for attack in ran
    ]
    said = "; ".join(
        f"{attack.name} got {attack.right_values or 0:.0%} of all values right, guessing"
        f" {attack.guessed_values or 0:.0%}"
        for attack in ran
    )
    legend = [("--one", "rebuilt by the attack"), ("--formula", "right by guessing alone")]
    return bars("Values that an attacker gets right", f"{said}.", rows, legend)


def _axes(prepared: Prepared) -> Markup | None:
    """Return the share of the rows' squared length along each leading axis."""
    values = np.square(np.array(prepared.singular_values))
    if not values.sum():
        return None
    shares = (values / values.sum())[:_MOST_AXES].tolist()
    colours = ["--ours"] * prepared.latent_dim + ["--three"] * _MOST_AXES
    rows = [
        (f"axis {number}", [Bar(share, colour, _percent(share))])
        for number, (share, colour) in enumerate(zip(shares, colours, strict=False), 1)
    ]
    kept = float((values / values.sum())[: prepared.latent_dim].sum())
    return bars(
        "Where the rows lie: share of their squared length along each axis",
        f"The first {prepared.latent_dim} axes hold {kept:.0%}.",
        rows,
        [("--ours", "an axis that leaves"), ("--three", "projected away")],
    )


def _bits(count: float, colour: str) -> Bar:
    return Bar(count, colour, f"{count:,.0f} bits")


def _percent(share: float) -> str:
    return f"{share:.0%}" if share in (0, 1) or share >= 0.1 else f"{share:.1%}"
