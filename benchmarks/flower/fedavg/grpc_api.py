"""Flower's deprecated gRPC API: `start_server` and `start_client`, one long-lived process each.

``python -m fedavg.grpc_api server ADDRESS PARTIES ROUNDS`` or ``client ADDRESS INDEX EPOCHS``.
"""

from __future__ import annotations

import sys

from flwr.client import NumPyClient, start_client
from flwr.common import EvaluateIns, Parameters, Scalar, ndarrays_to_parameters
from flwr.server import ServerConfig, start_server
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg

from . import party
from .mlp import Weights, initial_weights


class DeliverLast(FedAvg):
    """FedAvg that sends the model for evaluation in the last round only."""

    def __init__(self, parties: int, rounds: int) -> None:
        super().__init__(
            min_fit_clients=parties,
            min_evaluate_clients=parties,
            min_available_clients=parties,
            initial_parameters=ndarrays_to_parameters(initial_weights(*party.shape())),
            on_fit_config_fn=lambda server_round: {"server-round": server_round},
        )
        self._rounds = rounds

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        if server_round < self._rounds:
            return []
        return super().configure_evaluate(server_round, parameters, client_manager)


class Party(NumPyClient):
    """One institution."""

    def __init__(self, index: int, epochs: int) -> None:
        self._index, self._epochs = index, epochs

    def fit(self, parameters: Weights, config: dict[str, Scalar]) -> tuple[Weights, int, dict[str, Scalar]]:
        weights, rows = party.fit(
            self._index, parameters, epochs=self._epochs, federated_round=int(config["server-round"])
        )
        return weights, rows, {}

    def evaluate(
        self, parameters: Weights, _config: dict[str, Scalar]
    ) -> tuple[float, int, dict[str, Scalar]]:
        accuracy, rows = party.keep(self._index, parameters)
        return 0.0, rows, {"accuracy": accuracy}


def main(role: str, address: str, first: str, second: str) -> None:
    """Run the server (number of parties, number of rounds) or a client (its index, number of epochs)."""
    if role == "server":
        parties, rounds = int(first), int(second)
        start_server(
            server_address=address,
            config=ServerConfig(num_rounds=rounds),
            strategy=DeliverLast(parties, rounds),
        )
    else:
        start_client(server_address=address, client=Party(int(first), int(second)).to_client())


if __name__ == "__main__":
    main(*sys.argv[1:])
