"""The ClientApp: Flower's supported deployment, where a SuperNode starts it for every message."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from . import party

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on this party's rows and return the weights."""
    weights, rows = party.fit(
        int(context.node_config["partition-id"]),
        message.content["arrays"].to_numpy_ndarrays(),
        epochs=int(context.run_config["epochs"]),
        federated_round=int(message.content["config"]["server-round"]),
    )
    metrics = MetricRecord({"num-examples": rows})
    return Message(content=RecordDict({"arrays": ArrayRecord(weights), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Store the final model and return its accuracy."""
    accuracy, rows = party.keep(
        int(context.node_config["partition-id"]), message.content["arrays"].to_numpy_ndarrays()
    )
    metrics = MetricRecord({"accuracy": accuracy, "num-examples": rows})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
