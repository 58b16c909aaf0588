"""Write the test vectors of docs/protocol.md.

::

    python -m tests.vectors.generate            # the files that are the same on every run
    python -m tests.vectors.generate --random   # signed.json and sealing.json too

ECDSA and HPKE draw random numbers, so ``--random`` gives other bytes each time: use it only when the
wire or the plain words change. The modules beside this one hold the cases. Messages are packed by the forty
lines of `packing.pack` and anchors are expanded by `keys.uniform_numbers` and `keys.gaussian_numbers`, not by
the packages under test, so that a vector is an independent check of them. A test compares the stored files
with what this module makes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tests.vectors.arrays import scaled_matrices, streams, uplinks
from tests.vectors.encoded import encoded_columns
from tests.vectors.keys import anchors, keys
from tests.vectors.ledgers import ledgers
from tests.vectors.messages import broken_messages, valid_messages
from tests.vectors.plain_words import shown_texts
from tests.vectors.signed import sealed_secrets, signed_messages
from tests.vectors.sums import sums

HERE = Path(__file__).parent


def deterministic() -> dict[str, Any]:
    """Return the content of every file that is the same on every run."""
    return {
        "messages.json": [*valid_messages(), *broken_messages()],
        "uplinks.json": [*uplinks()],
        "streams.json": [*streams()],
        "scaled.json": [*scaled_matrices()],
        "encoded.json": [*encoded_columns()],
        "ledgers.json": [*ledgers()],
        "sums.json": [*sums()],
        "keys.json": keys(),
        "plain_words.json": [*shown_texts()],
        "anchors.json": [*anchors()],
    }


def random() -> dict[str, Any]:
    """Return the content of the files that differ on every run."""
    return {"signed.json": signed_messages(), "sealing.json": sealed_secrets()}


def main() -> None:
    parser = argparse.ArgumentParser(description="write the test vectors")
    parser.add_argument("--random", action="store_true", help="also those with random keys")
    files = deterministic() | (random() if parser.parse_args().random else {})
    for name, content in files.items():
        (HERE / name).write_text(json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
