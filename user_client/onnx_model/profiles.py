"""What a file may consist of: a model of a round by docs/protocol.md, or a map of an institution's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from user_client.onnx_model.learned import LEARNED
from user_client.onnx_model.operators import STANDARD, Call, Operator, Outputs, Values
from user_client.onnx_model.wire import RefusedModelError


@dataclass(frozen=True)
class Profile:
    """What may be in a file.

    Attributes
    ----------
    name : str
    input : str, optional
        How its one input is called; None for any name.
    operators : mapping of str to mapping of str to Operator
        By domain and name.
    takes_decimals : bool
        Whether attributes may be single decimal numbers.
    """

    name: str
    input: str | None
    operators: Mapping[str, Mapping[str, Operator]]
    takes_decimals: bool = False


def _decimal(call: Call, name: str, absent: float) -> np.float32:
    value = call.attributes.get(name, absent)
    if not isinstance(value, float):
        raise RefusedModelError(f"has an attribute '{name}' that is no decimal number")
    return np.float32(value)


def _gemm(call: Call) -> Outputs:
    """Return ``alpha A B + beta C`` for 32-bit floats, with A or B turned over if the node says so."""
    one, other, *plus = call.inputs
    if one.ndim != 2 or other.ndim != 2 or {each.dtype for each in call.inputs} != {np.dtype(np.float32)}:
        raise RefusedModelError("multiplies what are no matrices of 32-bit floats")
    one = one.T if call.whole("transA", 0) else one
    other = other.T if call.whole("transB", 0) else other
    call.room.take((one.shape[0], other.shape[1]))
    found: Values = _decimal(call, "alpha", 1.0) * (one @ other)
    if plus:
        found = found + _decimal(call, "beta", 1.0) * np.broadcast_to(plus[0], found.shape)
    return (np.asarray(found, np.float32),)


def _leaky(call: Call) -> Outputs:
    slope = _decimal(call, "alpha", 0.01)
    return (np.asarray(np.where(call.first < 0, slope * call.first, call.first), call.first.dtype),)


def _elu(call: Call) -> Outputs:
    low = _decimal(call, "alpha", 1.0) * np.expm1(np.minimum(call.first, 0))
    return (np.asarray(np.where(call.first < 0, low, call.first), call.first.dtype),)


def _smooth(values: Values) -> Values:
    """Return ``log(1 + exp(x))`` without an overflow."""
    return np.asarray(np.logaddexp(values, 0))


def _plain(function: np.ufunc) -> Operator:
    return Operator(lambda call: (np.asarray(function(call.first), call.first.dtype),))


_ALPHA: Final = frozenset({"alpha"})
OF_MAPS: Final[Mapping[str, Operator]] = {
    **STANDARD,
    "Elu": Operator(_elu, _ALPHA),
    "Gemm": Operator(_gemm, frozenset({"alpha", "beta", "transA", "transB"}), (2, 3)),
    "LeakyRelu": Operator(_leaky, _ALPHA),
    "Neg": _plain(np.negative),
    "Sin": _plain(np.sin),
    "Softplus": Operator(lambda call: (np.asarray(_smooth(call.first), call.first.dtype),)),
    "Sqrt": _plain(np.sqrt),
    "Tanh": _plain(np.tanh),
}
"""What an encoder of a network consists of, beside what models of a round have."""
OF_A_ROUND: Final = Profile("round", "rep", {"": STANDARD, "ai.onnx.ml": LEARNED})
OF_AN_INSTITUTION: Final = Profile("own-map", None, {"": OF_MAPS}, takes_decimals=True)
PROFILES: Final[Mapping[str, Profile]] = {each.name: each for each in (OF_A_ROUND, OF_AN_INSTITUTION)}
