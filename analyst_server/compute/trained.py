"""What comes of a training: the model h, or one for each group of parties, and what the report says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analyst_server.blobs import StoredArray


@dataclass(frozen=True)
class TrainedGroup:
    """The model of one group of parties; the fields are those of `TrainedModel`."""

    parties: tuple[str, ...]
    onnx_file: StoredArray
    rows: int
    parameters: int
    name: str | None = None
    """Of the chosen model, if there was a choice."""

    def as_json(self) -> dict[str, Any]:
        """Return what the records keep of it and the report shows."""
        return {
            "parties": list(self.parties),
            "rows": self.rows,
            "model_parameters": self.parameters,
            **({"model": self.name} if self.name else {}),
        }


@dataclass(frozen=True)
class TrainedModel:
    """The model h as an ONNX file, and how it was judged.

    Attributes
    ----------
    onnx_file : StoredArray
        Its bytes.
    anchor_predictions : StoredArray, optional
        What h says of each party's anchor rows, (c, a, classes), where the terms ask for that.
    rows, parameters : int
        How many rows trained it, and how many numbers it has: the paper's N.
    converged : bool
        Whether the fit stopped by itself.
    parity_gap : float
        Largest difference of a prediction between the fitted model and its ONNX file.
    privacy : mapping, optional
        How much the model tells of one row, and the noise that it took: None for a model without privacy.
    choice : mapping, optional
        Which models were compared, and how they did, as `training.choosing.Choice.as_json` has it; None if
        the terms name one model.
    of_rows : int, optional
        How many rows there were, if not all trained it.
    far_rows : mapping of str to int
        How many rows of a party were far from all others and were brought nearer.
    groups : tuple of TrainedGroup, optional
        The groups of parties that have a model of their own, which may be none; None unless the terms ask for
        them. This one is then for all other parties.
    judgement : mapping
        Scores on rows that did not train it, or that there are none yet: `training.judgement.Judgement` as
        plain values, because loading what is behind it takes the server as long as its own libraries.
    """

    onnx_file: StoredArray
    anchor_predictions: StoredArray | None
    rows: int
    parameters: int
    converged: bool
    parity_gap: float
    judgement: Mapping[str, Any]
    privacy: Mapping[str, float] | None = None
    choice: Mapping[str, Any] | None = None
    of_rows: int | None = None
    far_rows: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[TrainedGroup, ...] | None = None

    def of_party(self, party: str) -> TrainedModel | TrainedGroup:
        """Return the model that a party gets: its file, and how many parameters that has."""
        return next((group for group in self.groups or () if party in group.parties), self)

    def as_json(self) -> dict[str, Any]:
        """Return what the records keep of it and the report shows."""
        return {
            "rows": self.rows,
            **({"of_rows": self.of_rows} if self.of_rows is not None else {}),
            **({"far_rows": dict(self.far_rows)} if self.far_rows else {}),
            "model_parameters": self.parameters,
            "converged": self.converged,
            "parity_gap": self.parity_gap,
            **scores_as_json(self.judgement),
            **({"model_privacy": self.privacy} if self.privacy else {}),
            **({"choice": self.choice} if self.choice else {}),
            **({"groups": [group.as_json() for group in self.groups]} if self.groups is not None else {}),
        }

    @property
    def is_to_be_judged(self) -> bool:
        return bool(self.judgement["is_pending"])


def scores_as_json(judgement: Mapping[str, Any]) -> dict[str, Any]:
    """Return a judgement, and the means of its headline, as records of earlier versions had their scores."""
    headline = judgement["headline"]
    of_all = {name: found for name, found in headline.items() if name != "labels"} if headline else {}
    means = {name: interval["mean"] for name, interval in of_all.items()} or None
    return {"hold_out_scores": means, "judgement": judgement}
