"""Health check of the analyst's container: exit with 0 if the server answers with its own certificate.

The chain is verified but the name is not, because inside the container the server is ``localhost``, which
its certificate need not contain.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
from pathlib import Path


def is_healthy(data_dir: Path, port: int) -> bool:
    """Return whether a server with a certificate of this consortium answers ``/healthz`` here."""
    try:
        context = ssl.create_default_context(cafile=data_dir / "identity" / "root.pem")
        context.check_hostname = False
        line = http.client.HTTPSConnection("127.0.0.1", port, timeout=4, context=context)
        line.request("GET", "/healthz")
        return line.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


if __name__ == "__main__":
    data_dir = Path(os.environ.get("ODC_ANALYST_DATA_DIR", "analyst-data"))
    sys.exit(not is_healthy(data_dir, int(os.environ.get("ODC_ANALYST_PORT", "8443"))))
