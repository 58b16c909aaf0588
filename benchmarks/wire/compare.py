"""One data set, done by us and by Flower's two deployments."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.wire.flower import Federation
from benchmarks.wire.ours import Round, typical
from benchmarks.wire.tables import Work


@dataclass(frozen=True)
class Compared:
    """One data set's measurements, and the ratios we claim: the supported deployment's cost over ours."""

    work: Work
    our_rounds: tuple[Round, ...]
    supported: Federation
    grpc_api: Federation

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
    def score_gap(self) -> float:
        """Return by how many points ours is worse than the better of the two; negative if ours is better."""
        best = max(self.supported.scores["accuracy"], self.grpc_api.scores["accuracy"])
        return 100 * (best - self.ours.scores["accuracy"])
