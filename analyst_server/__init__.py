"""The analyst's process: REST API, store, ingest, alignment, training."""

import os

# onnxruntime reports to its maker from the moment it is imported; nothing here talks to anybody but the
# other side of the protocol
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
