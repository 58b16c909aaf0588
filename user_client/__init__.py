"""An institution's process: CLI, SDK, secrets, tables, transport, local prediction."""

import os

# onnxruntime reports to its maker from the moment it is imported; nothing here talks to anybody but the
# other side of the protocol
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
