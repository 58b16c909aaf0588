"""Key streams for tests: repeatable bytes, not secret."""

from __future__ import annotations

import numpy as np

from user_client.secret.expansion import ByteSource


def stream(seed: int) -> ByteSource:
    return np.random.default_rng(seed).bytes
