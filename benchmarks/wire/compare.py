"""One data set, done by us and by Flower's two deployments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.wire.by_round import first_round
from benchmarks.wire.flower import Federation
from benchmarks.wire.ours import Round, typical
from benchmarks.wire.tables import Work


@dataclass(frozen=True)
class Compared:
    """One data set's measurements, and the ratios we claim: the supported deployment's cost over ours.

    Attributes
    ----------
    by_round : sequence of float
        Flower's accuracy on the hold-out after each round.
    to_our_score : Federation
        The supported deployment again, ended after the first round in which it scores no less than ours. If
        it never does, the one with all rounds: it has cost so much and not reached our score.
    """

    work: Work
    our_rounds: tuple[Round, ...]
    supported: Federation
    grpc_api: Federation
    by_round: Sequence[float]
    to_our_score: Federation

    @property
    def ours(self) -> Round:
        """Return the round of ours that Flower is compared with."""
        return typical(self.our_rounds)

    @property
    def bytes_ratio(self) -> float:
        return self.supported.bytes / self.ours.bytes

    @property
    def seconds_ratio(self) -> float:
        return self.supported.seconds / self.ours.seconds

    @property
    def bytes_ratio_to_our_score(self) -> float:
        return self.to_our_score.bytes / self.ours.bytes

    @property
    def seconds_ratio_to_our_score(self) -> float:
        return self.to_our_score.seconds / self.ours.seconds

    @property
    def rounds_to_our_score(self) -> int | None:
        """Return the first round in which Flower scores no less than ours; None if it never does."""
        return first_round(self.by_round, self.ours.scores["accuracy"])

    @property
    def score_gap(self) -> float:
        """Return by how many points ours is worse than the better of the two; negative if ours is better."""
        best = max(self.supported.scores["accuracy"], self.grpc_api.scores["accuracy"])
        return 100 * (best - self.ours.scores["accuracy"])

    @property
    def replay_gap(self) -> float:
        """Return by how many points Flower's accuracy differs from the one that `by_round` ends with."""
        return 100 * abs(self.supported.scores["accuracy"] - self.by_round[-1])
