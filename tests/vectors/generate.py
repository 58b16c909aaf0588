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

from tests.vectors import unknown
from tests.vectors.arrays import scaled_matrices, streams, uplinks
from tests.vectors.checkpoints import checkpoints
from tests.vectors.codings import codings
from tests.vectors.encoded import encoded_columns
from tests.vectors.exchanges import exchanges
from tests.vectors.joined import row_keys
from tests.vectors.judged import judged
from tests.vectors.keys import anchors, keys
from tests.vectors.ledgers import ledgers
from tests.vectors.messages import broken_messages, valid_messages
from tests.vectors.models import models
from tests.vectors.numbers import bases, numbers
from tests.vectors.odd_inputs import odd_inputs
from tests.vectors.plain_words import shown_texts
from tests.vectors.received import received
from tests.vectors.rounds import checks
from tests.vectors.signed import sealed_secrets, signed_messages
from tests.vectors.sums import sums
from tests.vectors.trained_on import whose_rows
from tests.vectors.trust import trust

HERE = Path(__file__).parent
FLOATING = ("anchors.json", "bases.json", "models.json")
"""Files whose last digits depend on the machine: they are left alone while they agree to `TOLERANCE`."""
TOLERANCE = 1e-12


def deterministic() -> dict[str, Any]:
    """Return the content of every file that is the same on every run."""
    return {
        "messages.json": [*valid_messages(), *broken_messages(), *unknown.broken()],
        "uplinks.json": [*uplinks()],
        "streams.json": [*streams()],
        "scaled.json": [*scaled_matrices()],
        "encoded.json": [*encoded_columns()],
        "odd_inputs.json": odd_inputs(),
        "ledgers.json": [*ledgers()],
        "trained_on.json": [*whose_rows()],
        "sums.json": [*sums()],
        "keys.json": {**keys(), "row_keys": row_keys()},
        "plain_words.json": [*shown_texts()],
        "trust.json": trust(),
        "received.json": received(),
        "judged.json": judged(),
        "checks.json": [*checks()],
        "codings.json": [*codings()],
        "checkpoints.json": checkpoints(),
        "models.json": models(),
        "http.json": exchanges(),
        "numbers.json": numbers(),
        "anchors.json": [*anchors()],
        "bases.json": [*bases()],
    }


def random() -> dict[str, Any]:
    """Return the content of the files that differ on every run."""
    return {"signed.json": signed_messages(), "sealing.json": sealed_secrets()}


def agree(stored: Any, made: Any) -> bool:
    """Return whether two values of JSON are the same, but for floats within `TOLERANCE`."""
    if isinstance(stored, float) and isinstance(made, float):
        return abs(stored - made) <= TOLERANCE
    if isinstance(stored, list) and isinstance(made, list):
        return len(stored) == len(made) and all(map(agree, stored, made))
    if isinstance(stored, dict) and isinstance(made, dict):
        return stored.keys() == made.keys() and all(agree(stored[key], made[key]) for key in stored)
    return bool(stored == made)


def main() -> None:
    parser = argparse.ArgumentParser(description="write the test vectors")
    parser.add_argument("--random", action="store_true", help="also those with random keys")
    files = deterministic() | (random() if parser.parse_args().random else {})
    for name, content in files.items():
        if (
            name in FLOATING
            and (HERE / name).exists()
            and agree(json.loads((HERE / name).read_text()), content)
        ):
            continue
        (HERE / name).write_text(json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
