"""What each transfer of a round has to carry, from its messages: the terms of an `Explanation`."""

from __future__ import annotations

from typing import Final

from protocol import metering
from protocol.arrays import Layout
from protocol.limits import SEED_BYTES
from protocol.matrix import sealed_matrix_bytes
from protocol.messages import DownlinkManifest, UplinkManifest
from protocol.metering import FORMULA_BITS, Counts, Transfer
from protocol.terms import Terms

_SEAL_AT_MOST_BYTES: Final = 4096
"""A sealed anchor or an acceptance, signed: 2 to 3 kB."""


def uplink_transfer(terms: Terms, manifest: UplinkManifest, signed: bytes) -> Transfer:
    """Formula (3), and what goes with it: the signed manifest, the digests of the chunks."""
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    formula = metering.uplink(
        rows=manifest.rep.shape[0],
        anchor_rows=terms.anchor.rows,
        latent_dim=terms.latent_dim,
        bits=FORMULA_BITS,
    )
    return Transfer(
        formula_bytes=int(formula.total_bytes),
        payload_bytes=layout.payload_bytes,
        labels_bytes=manifest.labels.payload_bytes,
        framing_bytes=len(signed) + layout.stream_bytes - layout.payload_bytes,
    )


def downlink_transfer(terms: Terms, manifest: DownlinkManifest, signed: bytes) -> Transfer:
    """Formula (4), and what goes with it: the signed manifest behind its length, the digests.

    Under NRI-DC the predictions for the anchor stand for formula (4).
    """
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    return Transfer(
        formula_bytes=int(downlink_formula_bytes(terms, manifest.model_parameters)),
        payload_bytes=layout.payload_bytes,
        framing_bytes=4 + len(signed) + layout.stream_bytes - layout.payload_bytes,
    )


def downlink_formula_bytes(terms: Terms, model_parameters: int) -> float:
    """Formula (4), or what stands for it under these terms."""
    if terms.returns_anchor_predictions:
        return metering.anchor_predictions(
            anchor_rows=terms.anchor.rows,
            classes=len(terms.table_schema.label_column.classes),
            bits=FORMULA_BITS,
        )
    return metering.downlink(
        latent_dim=terms.latent_dim, model_parameters=model_parameters, bits=FORMULA_BITS
    ).total_bytes


def anchor_transfer(terms: Terms, party: str, counted: Counts) -> Transfer:
    """Formula (5) at the lead, who sends a sealed seed for each member; every member fetches its own.

    The lead keeps no copy of what it sealed for others, so framing is what the bodies hold besides the
    seeds: the seals, and the acceptances with the keys to seal to. A public anchor's matrix goes up once and
    down to each other member.
    """
    is_lead = party == terms.lead
    copies = len(terms.parties) if is_lead and counted.up.body_bytes else 0
    copies += 1 if counted.down.body_bytes else 0
    formula = metering.anchor(
        anchor_rows=terms.anchor.rows,
        features=terms.table_schema.width,
        bits=FORMULA_BITS,
    )
    payload_bytes, repeated_bytes = SEED_BYTES * copies, 0
    sealed_bytes = sealed_matrix_bytes(terms)
    seals_bytes = _SEAL_AT_MOST_BYTES * (len(terms.parties) if is_lead else 1)
    for flow in (counted.up, counted.down) if sealed_bytes else ():
        times = flow.body_bytes // sealed_bytes
        payload_bytes += terms.anchor_matrix_bytes * min(times, 1)
        if sealed_bytes > seals_bytes:  # of a smaller one the count cannot tell how often it was sent
            repeated_bytes += sealed_bytes * max(times - 1, 0)
    return Transfer(
        formula_bytes=int(formula) if is_lead and copies else 0,
        payload_bytes=payload_bytes,
        framing_bytes=counted.up.body_bytes + counted.down.body_bytes - payload_bytes - repeated_bytes,
    )
