"""What a round of sums would cost: its formula, our messages, and federated averaging beside them."""

from __future__ import annotations

from typing import Final

from analyst_server.services.planning import (
    Comparison,
    Plan,
    SumsScenario,
    compare,
    digest_bytes,
    manifest_line,
    put_together,
    signed_bytes,
)
from metering import formulas
from protocol.limits import SEED_BYTES
from protocol.messages import DTYPE_BYTES
from protocol.sums import MASK_KEY_BYTES, SUMS, TOTAL

_SUMMED: Final = "sums over all rows"
_BY_CLASS: Final = "sums by class"
_RETURNED: Final = "their total"


def plan_sums(scenario: SumsScenario) -> Plan:
    """Return what stands for formulas (3) to (6) under sums, our bytes, and formulas (7) and (8)."""
    terms = _terms(scenario)
    found = [_break_even(scenario, terms, share) for share in scenario.participation]
    triangles = scenario.parties + int(scenario.cohort)
    disk_bytes = 8 * scenario.sent_numbers * triangles + DTYPE_BYTES["f4"] * scenario.model_parameters
    return put_together(scenario, terms, found, scenario.compared_parameters, disk_bytes)


def _terms(scenario: SumsScenario) -> tuple[Comparison, ...]:
    """Return one line for each thing that is sent, and for what the formulas leave out."""
    c, triangle = scenario.parties, 8 * scenario.sent_numbers
    model = scenario.model_parameters * DTYPE_BYTES["f4"]
    by_formula = formulas.sums_uplink(
        features=scenario.latent_dim, outputs=scenario.outputs, by_class=scenario.by_class
    )
    total = (manifest_line(TOTAL, "u8", 1),) if scenario.cohort else ()
    signed = signed_bytes(
        (manifest_line(SUMS, "u8", 1),),
        (manifest_line("model", "u1", 1), *total),
        (bytes(MASK_KEY_BYTES),) * c,
    )
    digests = digest_bytes([triangle, model, *([triangle] if scenario.cohort else [])])
    down = formulas.downlink(
        latent_dim=0, model_parameters=scenario.model_parameters, bits=scenario.bits
    ).model_bytes
    returned = [compare("(4)", _RETURNED, c * by_formula, c * triangle)] if scenario.cohort else []
    return (
        compare("(3)", _BY_CLASS if scenario.by_class else _SUMMED, c * by_formula, c * triangle),
        compare("(4)", "model h", c * down, c * model),
        *returned,
        compare("(5)", "seed of the features", 0, 2 * c * SEED_BYTES),
        compare("", "signatures, seals, keys", 0, c * (digests + signed)),
    )


def _break_even(
    scenario: SumsScenario, terms: tuple[Comparison, ...], participation: float
) -> formulas.BreakEven:
    """Return R*: the rounds of federated averaging that cost as much as what stands for formula (6)."""
    one_round = formulas.federated_averaging(
        rounds=1,
        participation=participation,
        parties=scenario.parties,
        model_parameters=scenario.compared_parameters,
        bits=scenario.bits,
    )
    up, down = (sum(row.formula_bytes for row in terms if row.formula == part) for part in ("(3)", "(4)"))
    return formulas.BreakEven(up / one_round, down / one_round, 0.0)
