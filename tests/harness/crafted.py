"""An uplink whose arrays a test chooses, with correct digests and a correct signature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.arrays import little_endian, raw_bytes, specify
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import SealedAnchor, UplinkManifest
from protocol.terms import Terms
from user_client.sdk import Session
from user_client.transport.upload import send_uplink

Array = NDArray[Any]


def arrays(terms: Terms, count: int = 6) -> dict[str, Array]:
    """Arrays as the terms promise them."""
    rng = np.random.default_rng(0)
    return {
        "rep": rng.normal(size=(count, terms.latent_dim)),
        "anchor_rep": np.linalg.qr(rng.normal(size=(terms.anchor.rows, terms.latent_dim)))[0],
        "labels": np.arange(count) % 2,
    }


def send(
    session: Session,
    terms: Terms,
    given: dict[str, Array],
    *,
    dtype: Any = "f4",
    through: Session | None = None,
    **changes: Any,
) -> bytes:
    """Sign and send an uplink of ``given`` as ``session``, over its own line or another's."""
    anchor = session.round(terms.collaboration_id).directory.load(SealedAnchor)
    dtypes = {"rep": dtype, "anchor_rep": dtype, "labels": "u1"}
    wire = {name: little_endian(array, dtypes[name]) for name, array in given.items()}
    fields: dict[str, Any] = {
        "collaboration_id": terms.collaboration_id,
        "terms_digest": anchor.terms_digest,
        "party": session.membership.party,
        "anchor_commitment": anchor.commitment,
        "arrays": tuple(
            specify(name, array, dtypes[name], DEFAULT_CHUNK_BYTES) for name, array in wire.items()
        ),
        **changes,
    }
    manifest = UplinkManifest(**fields)
    payload = session.home.path / "crafted.payload"
    payload.write_bytes(b"".join(raw_bytes(array) for array in wire.values()))
    line = (through or session).connection
    return send_uplink(line, terms.collaboration_id, session.sign(manifest), manifest, payload)
