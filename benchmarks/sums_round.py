"""A round of sums as institutions and the analyst compute it, without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analyst_server.blobs import MemoryBlobs, StoredArray
from analyst_server.compute.sums import SumsSpec, compute_sums
from benchmarks.data import Matrix
from benchmarks.defaults.collaboration import Encoded
from benchmarks.defaults.tables import LABEL
from protocol.arrays import little_endian, raw_bytes
from protocol.table_schema import Schema
from protocol.terms import Terms
from user_client.custody.masks import MaskKey
from user_client.onnx_model.process import Model
from user_client.sdk import DraftedTerms, draft_terms, with_sums
from user_client.sdk.sums import feature_map, masked, summed

SEED: Final = bytes(range(32))
"""What the lead seals; any other gives another turn of the features and other random ones."""
FEWEST_ROWS: Final = 2
"""Of one institution: where rows are dealt by class, some may have few."""


def of_sums(parties: Sequence[Encoded], terms: Terms) -> Callable[[Matrix], NDArray[Any]]:
    """Do what institutions and analyst do under terms with sums; return how a member predicts."""
    features, label = feature_map(terms, SEED), terms.table_schema.label_column
    keys = [MaskKey.generate() for _ in parties]
    public = [key.public_bytes() for key in keys]
    blobs, sent = MemoryBlobs(), []
    for name, key, party in zip(terms.parties, keys, parties, strict=True):
        numbers, _ = summed(terms, party.rows, party.labels, features)
        covered = masked(numbers, key, terms, name, SEED, public)
        blobs.append(name, 0, raw_bytes(little_endian(covered, "u8")))
        blobs.commit(name)
        sent.append(StoredArray(name, 0, "u8", covered.shape))
    result = compute_sums(SumsSpec.of(terms, sent, "result"), blobs)
    model = Model(result.model.onnx_file.open(blobs).tobytes())
    return lambda rows: model.run(features(rows).astype(np.float32), label.model_output)


def drafted_by(lead: pa.Table, labels: pa.Table, parties: int) -> DraftedTerms:
    """Return the terms that a lead drafts from its own rows, for this number of parties."""
    names = [f"party-{index}" for index in range(parties)]
    classes = sorted(set(labels[LABEL].to_pylist()))
    return draft_terms(lead, label=LABEL, parties=names, title="benchmark", classes=classes)


def terms_of_sums(drafted: DraftedTerms, lead: pa.Table, schema: Schema, **options: Any) -> Terms:
    """Return the draft as terms of sums with this schema; ``options`` as of `with_sums`."""
    content = with_sums(drafted, lead, **options).content
    ids = {"consortium_id": "c0" * 16, "collaboration_id": "c1" * 16}
    of_few = {**content["sums"], "min_rows": FEWEST_ROWS}
    terms = {**content, **ids, "table_schema": schema.model_dump(mode="json"), "sums": of_few}
    features = schema.width + options.get("random_features", 0)
    anchor = {"kind": "haar", "rows": schema.width}
    return Terms.model_validate({**terms, "latent_dim": features, "anchor": anchor}, strict=False)


def in_one_place(parties: Sequence[Encoded]) -> Encoded:
    """Return all rows as if one institution had them."""
    return Encoded(
        np.vstack([party.rows for party in parties]),
        np.concatenate([party.labels for party in parties]),
        parties[0].test,
        parties[0].test_labels,
    )
