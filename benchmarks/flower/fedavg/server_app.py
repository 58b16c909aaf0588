"""The ServerApp: FedAvg over all parties; the final model is sent to each of them once."""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from .mlp import initial_weights
from .party import shape

app = ServerApp()


class DeliverLast(FedAvg):
    """FedAvg that evaluates only in the last round, so that nothing unnecessary is sent."""

    def __init__(self, parties: int, rounds: int) -> None:
        super().__init__(min_train_nodes=parties, min_evaluate_nodes=parties, min_available_nodes=parties)
        self._rounds = rounds

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if server_round < self._rounds:
            return []
        return super().configure_evaluate(server_round, arrays, config, grid)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    rounds, parties = int(context.run_config["rounds"]), int(context.run_config["parties"])
    weights = initial_weights(*shape())
    DeliverLast(parties, rounds).start(grid, ArrayRecord(weights), num_rounds=rounds)
