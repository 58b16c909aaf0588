"""Traces of a real server: what a collector gets of a round, and what happens if it takes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from protocol.operations import OPERATIONS
from tests.harness.consortium import consortium
from tests.harness.receiver import Receiver


def spans_of(collector: Receiver) -> list[dict[str, Any]]:
    found = []
    for _, body in list(collector.came):
        for part in MessageToDict(ExportTraceServiceRequest.FromString(body)).get("resourceSpans", ()):
            found += [span for scope in part["scopeSpans"] for span in scope["spans"]]
    return found


def attributes_of(span: dict[str, Any]) -> dict[str, str]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_a_collector_gets_requests_and_steps_of_a_round_and_no_name_of_a_party(
    tmp_path: Path,
) -> None:
    collector = Receiver()
    with collector.listening():
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
            "ODC_ANALYST_LOG_FORMAT": "json",
        }
        with consortium(tmp_path, "lead-hospital", "hospital-b", **settings) as made:
            collaboration = made.anchored()
            made.contribute_all(collaboration)
            made.receive_all(collaboration)
        spans = spans_of(collector)  # the server has ended, and sent the last ones before
    requests = [span for span in spans if span["kind"] == "SPAN_KIND_SERVER"]
    names = {operation.name for operation in OPERATIONS}
    assert {span["name"] for span in requests} <= names | {"GET", "POST", "PUT", "PATCH", "HEAD"}
    routes = {attributes_of(span).get("http.route") for span in requests}
    assert {"/v1/collaborations/{collaboration_id}/downlink"} <= routes
    steps = [span for span in spans if span["kind"] == "SPAN_KIND_INTERNAL"]
    assert {"align_parties", "train_model"} <= {span["name"] for span in steps}
    assert {attributes_of(span)["odc.collaboration_id"] for span in steps} == {collaboration}
    # a round is computed in the trace of the request that sealed it
    of_round = {span["traceId"] for span in steps if span["name"] in ("align_parties", "train_model")}
    assert len(of_round) == 1
    if made.second is None:  # of two servers, the other one may have taken it
        assert of_round <= {span["traceId"] for span in requests}
    sent = b"".join(body for _, body in collector.came)
    assert not any(name.encode() in sent for name in made.names)


def test_a_round_ends_and_so_does_the_server_if_nobody_takes_its_traces(tmp_path: Path) -> None:
    collector = Receiver(is_silent=True)
    with collector.listening():
        settings = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{collector.port}/v1/traces"}
        with consortium(tmp_path, "lead-hospital", "hospital-b", **settings) as made:
            collaboration = made.anchored()
            made.contribute_all(collaboration)
            made.receive_all(collaboration)
            made.analyst.stop()
