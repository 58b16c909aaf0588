"""One data set, done by us and by Flower's two deployments."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.wire.flower import Federation
from benchmarks.wire.ours import Round, typical
from benchmarks.wire.tables import Work


@dataclass(frozen=True)
class Compared:
    """The ratios we claim: how many times more the supported deployment needs."""

    work: Work
    our_rounds: tuple[Round, ...]
    supported: Federation
    grpc_api: Federation

    @property
    def ours(self) -> Round:
        """What Flower is held against."""
        return typical(self.our_rounds)

    @property
    def bytes_ratio(self) -> float:
        return self.supported.bytes / self.ours.bytes

    @property
    def seconds_ratio(self) -> float:
        return self.supported.seconds / self.ours.seconds

    @property
    def score_gap(self) -> float:
        """Points of accuracy by which ours is worse than the better of the two; negative if it is better."""
        best = max(self.supported.scores["accuracy"], self.grpc_api.scores["accuracy"])
        return 100 * (best - self.ours.scores["accuracy"])
