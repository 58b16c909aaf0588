"""What one bad member does to all others: it asks for ever more certificates, and sends rows of no table.

It has a certificate of the consortium and is a party of every round.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks import scale
from protocol.arrays import little_endian, raw_bytes, specify
from protocol.errors import NotFiniteError, OdcError
from protocol.identity import certificate_request
from protocol.limits import DEFAULT_CHUNK_BYTES, MAX_CHAIN_CERTIFICATE_BYTES, MAX_CHAIN_CERTIFICATES
from protocol.messages import Dtype, Renewal, SealedAnchor, UplinkManifest
from protocol.operations import REQUEST_RENEWAL
from protocol.row_bounds import RowTooLongError
from user_client.sdk import Approval, Session, renew
from user_client.transport.upload import send_uplink

RENEWALS, WILD_ROWS = "renewals", "wild rows"
ATTACKS: Final = (RENEWALS, WILD_ROWS)
WILD: Final = (1e4, 3e38, float("nan"))
"""What a row has in every place: once these spoiled a round, let it fail for ever, and were refused."""
_ROWS: Final = 40


class TakenError(Exception):
    """The analyst has taken what it must refuse."""


@dataclass
class BadMember:
    """One member, and how often it has tried what."""

    scene: scale.Scene
    name: str
    tried: Counter[str] = field(default_factory=Counter)

    def ask_for_a_certificate(self, session: Session) -> None:
        """Ask for one more, with as many bytes as a request can have."""
        message = Renewal(
            consortium_id=session.membership.consortium_id,
            renewal_id=secrets.token_hex(16),
            csr=certificate_request(session.home.key(), self.name),
            chain=(bytes(MAX_CHAIN_CERTIFICATE_BYTES),) * MAX_CHAIN_CERTIFICATES,
        )
        session.connection.ask(REQUEST_RENEWAL, session.sign(message))
        self.tried[RENEWALS] += 1

    def send_wild_rows(self, collaboration_id: str) -> None:
        """Send an uplink with a wild row, one after another; raises `TakenError` if one is taken."""
        with self.scene.session(self.name) as session:
            session.round(collaboration_id).prepare(scale.table(0))  # fetches the anchor
            for value in WILD:
                self.tried[WILD_ROWS] += 1
                try:
                    _send(session, collaboration_id, value)
                except (RowTooLongError, NotFiniteError):
                    continue
                raise TakenError(f"a row of {value:g} was taken")


def renews(scene: scale.Scene, name: str) -> None:
    """Let an honest member renew its certificate, and the lead sign: whatever else waits for it."""
    with scene.session(name) as session, scene.session(scene.names[0]) as lead:
        if renew(session) is None:
            approval = Approval(lead, lambda: scale.PASSPHRASE, parties=[name])
            approval.approve(approval.waiting())
            if renew(session) is None:
                raise TakenError(f"{name} waits for a certificate that was signed")


def again_and_again(bad: BadMember) -> Generator[None]:
    """Ask for certificates as fast as the server answers; yields after each."""
    with bad.scene.session(bad.name) as session:
        while True:
            with contextlib.suppress(OdcError):  # refused or cut off: it tries again
                bad.ask_for_a_certificate(session)
            yield


def _send(session: Session, collaboration_id: str, value: float) -> None:
    chosen = session.round(collaboration_id)
    terms, anchor = chosen.terms, chosen.directory.load(SealedAnchor)
    rng = np.random.default_rng()
    rep = rng.uniform(-0.1, 0.1, (_ROWS, terms.latent_dim))
    rep[_ROWS // 2] = value
    basis = np.linalg.qr(rng.standard_normal((terms.anchor.rows, terms.latent_dim)))[0]
    kinds: Mapping[str, tuple[NDArray[Any], Dtype]] = {
        "rep": (rep, "f4"),
        "anchor_rep": (basis, "f4"),
        "labels": (np.arange(_ROWS) % 2, "u1"),
    }
    wire = {name: little_endian(array, dtype) for name, (array, dtype) in kinds.items()}
    manifest = UplinkManifest(
        collaboration_id=collaboration_id,
        terms_digest=anchor.terms_digest,
        party=session.membership.party,
        anchor_commitment=anchor.commitment,
        arrays=tuple(
            specify(name, array, kinds[name][1], DEFAULT_CHUNK_BYTES) for name, array in wire.items()
        ),
    )
    payload = session.home.path / "wild.payload"
    payload.write_bytes(b"".join(map(raw_bytes, wire.values())))
    send_uplink(session.connection, collaboration_id, session.sign(manifest), manifest, payload)
