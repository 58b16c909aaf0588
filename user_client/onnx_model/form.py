"""What a model may be under some terms: the learned parts it consists of, and how many numbers it has.

A model that carries rows is one of learned parts made for that, or one of plain operators with many numbers.
Read in the process that evaluates the model, so that nothing else looks at what the analyst has sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from user_client.onnx_model.profiles import OF_A_ROUND, PROFILES, Profile
from user_client.onnx_model.wire import Graph, Node, RefusedModelError

OF_EVERY_FORM: Final = frozenset({"ArrayFeatureExtractor", "Normalizer", "Scaler"})
"""Operators of ``ai.onnx.ml`` that learn nothing but a shift and a scale."""
OF_ROWS: Final = frozenset({"TopK"})
"""Operators of ``ai.onnx`` that only models with rows have: they look for the nearest."""


@dataclass(frozen=True)
class Form:
    """What a file of one kind of model may have.

    Attributes
    ----------
    kind : str
    learned : tuple of str
        Operators of ``ai.onnx.ml``, beside those of every form.
    numbers : int
        Most numbers of all constants, and of all lists of numbers, together.
    file_bytes : int, optional
        Most bytes of the file.
    uncounted : tuple of str
        Operators whose numbers the terms do not bound.
    """

    kind: str
    learned: tuple[str, ...]
    numbers: int
    file_bytes: int | None
    uncounted: tuple[str, ...] = ()

    def why_not(self, graph: Graph, file_bytes: int) -> str:
        """Return in words why a file is no model of this kind; empty if it is one."""
        for node in graph.nodes:
            domain, name = node.operator
            if name in OF_ROWS or (domain and name not in OF_EVERY_FORM.union(self.learned)):
                return f"has the operator '{name}'"
        found = sum(constant.size for constant in graph.constants.values())
        found += sum(_numbers(node) for node in graph.nodes if node.operator[1] not in self.uncounted)
        if found > self.numbers:
            return f"has {found:,} numbers, of which that can have {self.numbers:,}"
        if self.file_bytes is not None and file_bytes > self.file_bytes:
            return f"has {file_bytes:,} bytes, of which that can have {self.file_bytes:,}"
        return ""


def _numbers(node: Node) -> int:
    return sum(value.size for value in node.attributes.values() if isinstance(value, np.ndarray))


def check_form(graph: Graph, file_bytes: int, forms: Sequence[Form]) -> None:
    """Raise `RefusedModelError` if a file has none of the forms; without any, it may be of every form."""
    reasons = [form.why_not(graph, file_bytes) for form in forms]
    if reasons and all(reasons):
        told = ", or ".join(
            f"no {form.kind} model: it {reason}" for form, reason in zip(forms, reasons, strict=True)
        )
        raise RefusedModelError(f"is none that the terms name: {told}")


def to_bytes(forms: Sequence[Form], profile: Profile = OF_A_ROUND) -> bytes:
    """Return forms and a profile as they are handed to the process that evaluates the model."""
    return json.dumps({"profile": profile.name, "forms": [asdict(form) for form in forms]}).encode()


def from_bytes(data: bytes) -> tuple[list[Form], Profile]:
    """Return what `to_bytes` was given."""
    given: dict[str, Any] = json.loads(data)
    found: list[dict[str, Any]] = given["forms"]
    for one in found:
        one |= {name: tuple(one[name]) for name in ("learned", "uncounted")}
    return [Form(**one) for one in found], PROFILES[given["profile"]]
