"""Opening what an installed analyst keeps, for the server and for each command alike."""

from __future__ import annotations

import time
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from analyst_server.services import revoke
from analyst_server.services.analyst import Analyst
from analyst_server.settings import Settings
from analyst_server.store import DirectoryBlobs, Records
from protocol.errors import CertificateRequiredError
from protocol.identity import TrustRoot, load_certificate


def unix_now() -> int:
    return int(time.time())


def open_analyst(settings: Settings, clock: Callable[[], int] = unix_now) -> Analyst:
    """Open the stores and the identity that `odc-analyst install` left.

    Raises `CertificateRequiredError` if there is none.
    """
    directory = settings.identity_dir
    if not (directory / "certificate.pem").exists():
        error = CertificateRequiredError(f"there is no certificate in {directory}")
        error.hint = "run `odc-analyst join INVITATION`, then `odc-analyst install CERTIFICATE`"
        raise error
    key = load_pem_private_key((directory / "key.pem").read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateRequiredError(f"the key in {directory} is not an ECDSA key")
    records = Records(settings.database)
    records.migrate()
    analyst = Analyst(
        records=records,
        blobs=DirectoryBlobs(settings.blob_dir),
        root=TrustRoot(load_certificate((directory / "root.pem").read_bytes())),
        certificate=load_certificate((directory / "certificate.pem").read_bytes()),
        key=key,
        clock=clock,
        max_uplink_bytes=settings.max_uplink_bytes,
    )
    revoke.load(analyst)
    return analyst
