"""What is installed on the analyst's machine: its key, its certificate, its stores.

`join`, `renew` and `install` carry a certificate request to the lead and the certificate back, in files,
before there is a server. `open_analyst` opens the result for the server and for every command.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from analyst_server.blobs import Blobs, DirectoryBlobs, S3Blobs
from analyst_server.services import certificates
from analyst_server.services.analyst import Analyst
from analyst_server.settings import Settings
from analyst_server.store import Leases, Records, place_of
from protocol.codec import encode
from protocol.envelope import sign
from protocol.errors import (
    CertificateRefusedError,
    CertificateRequiredError,
    InputError,
    InvitationError,
    TrustError,
    UnreadableFileError,
)
from protocol.identity import (
    Identity,
    TrustRoot,
    certificate_request,
    certified_name,
    key_fingerprint,
    load_certificate,
    public_key,
    same_key,
)
from protocol.invitation import Invitation
from protocol.messages import Renewal
from runtime.files import make_directory, read_bytes, write_whole

log = logging.getLogger(__name__)

REQUEST_FILE: Final = "analyst-request.odc"
STORES_FILE: Final = "stores.json"
KEY_FILE: Final = "key.pem"
CERTIFICATE_FILE: Final = "certificate.pem"
ROOT_FILE: Final = "root.pem"
_POLL_S: Final = 0.1


def unix_now() -> int:
    """Return the time in whole seconds."""
    return int(time.time())


def join(identity_dir: Path, invitation: Invitation, *, now: int) -> bytes:
    """Create the analyst's key and return the certificate request to carry to the lead institution.

    Joining again makes another request for the same key, which is never replaced.

    Raises
    ------
    InvitationError
        If the invitation is for another role or has expired, or the directory is another consortium's.
    """
    if invitation.role != "analyst":
        raise InvitationError(f"the invitation is for {invitation.party}, not for an analyst")
    if invitation.expires_at <= now:
        raise InvitationError("the invitation has expired")
    invitation.trust_root()
    make_directory(identity_dir)
    key_path = identity_dir / KEY_FILE
    if not key_path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        write_whole(key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    root_path = identity_dir / ROOT_FILE
    root = invitation.root_certificate.encode()
    kept = root_path.read_bytes() if root_path.exists() else b""
    if kept not in (b"", root):  # an earlier version left an empty file, if the power was cut
        raise InvitationError(f"{identity_dir} belongs to another consortium; choose another --data-dir")
    if not kept:
        write_whole(root_path, root)
    root_path.chmod(0o644)  # it is public, and copies for a balancer are read by others
    return encode(invitation.answer(_load_key(key_path)))


def renew(identity_dir: Path) -> bytes:
    """Return a signed request for a new certificate of the same name and key.

    Raises `CertificateRefusedError` if there is no certificate yet.
    """
    path = identity_dir / CERTIFICATE_FILE
    if not path.exists():
        raise CertificateRefusedError(f"there is no certificate in {identity_dir}; join first")
    certificate, key = load_certificate(path.read_bytes()), _load_key(identity_dir / KEY_FILE)
    identity = certified_name(certificate)
    renewal = Renewal(
        consortium_id=identity.consortium_id,
        renewal_id=secrets.token_hex(16),
        csr=certificate_request(key, identity.name),
    )
    return sign(renewal, key, certificate)


def install(identity_dir: Path, certificate_pem: bytes, *, now: int) -> Identity:
    """Check the certificate that the lead issued, store it beside its key, and return its identity.

    Raises
    ------
    InvitationError
        If there is no key yet.
    CertificateRefusedError
        If the certificate is for another key or role, or does not lead to the invitation's root.
    """
    key_path = identity_dir / KEY_FILE
    if not key_path.exists():
        raise InvitationError(f"there is no key in {identity_dir}; join first")
    certificate = load_certificate(certificate_pem)
    root = TrustRoot(load_certificate((identity_dir / ROOT_FILE).read_bytes()))
    identity = root.identify(certificate, at=now)
    if identity.role != "analyst":
        raise CertificateRefusedError(f"the certificate is for {identity.role} {identity.name}")
    if not same_key(public_key(certificate), _load_key(key_path).public_key()):
        raise CertificateRefusedError("the certificate is not for the key of this analyst")
    # never half written: a server may be waiting for the file
    write_whole(identity_dir / CERTIFICATE_FILE, certificate.public_bytes(Encoding.PEM))
    return identity


def wait_until_installed(identity_dir: Path, seconds: float) -> None:
    """Return when a certificate is installed, or after ``seconds``."""
    path, ends_at = identity_dir / CERTIFICATE_FILE, time.monotonic() + seconds
    if seconds and not path.exists():
        log.info("waiting %g s for %s", seconds, path)
    while not path.exists() and time.monotonic() < ends_at:
        time.sleep(_POLL_S)


def require_installed(identity_dir: Path) -> None:
    """Raise `CertificateRequiredError` if no certificate is installed."""
    if not (identity_dir / CERTIFICATE_FILE).exists():
        error = CertificateRequiredError(f"there is no certificate in {identity_dir}")
        error.hint = (
            "name the directory of an analyst with --data-dir, or begin one: `odc-analyst join INVITATION`,"
            " then `odc-analyst install CERTIFICATE`"
        )
        raise error


def own_key_fingerprint(identity_dir: Path) -> str:
    """Return the fingerprint of the analyst's key, for people to compare."""
    return key_fingerprint(_load_key(identity_dir / KEY_FILE).public_key())


def open_analyst(
    settings: Settings, clock: Callable[[], int] = unix_now, *, upgrades: bool = True
) -> Analyst:
    """Return the installed analyst with its stores open and its tables up to date.

    Without ``upgrades``, tables of an earlier version are left as they are: only a server upgrades them.

    Raises `CertificateRequiredError` if no certificate is installed, and `InputError` for tables of another
    version.
    """
    directory = settings.identity_dir
    require_installed(directory)
    key = _load_key(directory / KEY_FILE, CertificateRequiredError)
    records = Records(settings.database)
    records.migrate(upgrades=upgrades)
    analyst = Analyst(
        records=records,
        blobs=blobs_of(settings),
        root=TrustRoot(load_certificate((directory / ROOT_FILE).read_bytes())),
        certificate=load_certificate((directory / CERTIFICATE_FILE).read_bytes()),
        key=key,
        clock=clock,
        max_uplink_bytes=settings.max_uplink_bytes,
        max_party_bytes=settings.max_party_bytes,
        max_collaboration_bytes=settings.max_collaboration_bytes,
        leases=Leases(settings.lease_dir, silent_s=settings.lease_s),
    )
    certificates.load_revocations(analyst)
    return analyst


def note_stores(settings: Settings) -> None:
    """Write down where records and arrays are, for commands that are run without the server's settings."""
    place = place_of(settings.database_url) if settings.database_url else ""
    content = json.dumps({"database": place, "blobs": settings.blob_url}).encode()
    path = settings.data_dir / STORES_FILE
    if not path.exists() or path.read_bytes() != content:
        write_whole(path, content)


def require_noted_stores(settings: Settings) -> None:
    """Raise `InputError` if the server's records or arrays are elsewhere, and these settings do not say so.

    A command would make empty records in the data directory, and answer from them. Raises
    `UnreadableFileError` if what the server has noted cannot be read.
    """
    path = settings.data_dir / STORES_FILE
    if not path.exists():
        return
    try:
        noted = json.loads(path.read_bytes())
        database, blobs = str(noted["database"]), str(noted["blobs"])
    except (ValueError, KeyError, TypeError):
        damaged = UnreadableFileError(path, "it is not what the server has written")
        damaged.hint = "start the server: it writes the file again"
        raise damaged from None
    for what, place, name in (
        ("records", "" if settings.database_url else database, "DATABASE_URL"),
        ("arrays", "" if settings.blob_url else blobs, "BLOB_URL"),
    ):
        if place:
            error = InputError(f"the server's {what} are in {place}, and ODC_ANALYST_{name} is not set here")
            error.hint = (
                "give this command the variables of the server (docs/operations.md, settings);"
                f" if the server has moved back into {settings.data_dir}, start it first"
            )
            raise error


def blobs_of(settings: Settings) -> Blobs:
    """Return the store of arrays that the settings name."""
    if settings.blob_url and not settings.blob_url.startswith("file:///"):
        blobs = S3Blobs(settings.blob_url, settings.blob_dir)  # first: it refuses what is no address
        make_directory(settings.blob_dir)
        return blobs
    return DirectoryBlobs(settings.blob_dir)


def _load_key(path: Path, refusal: type[TrustError] = CertificateRefusedError) -> ec.EllipticCurvePrivateKey:
    if not path.exists():
        missing = refusal(f"there is no key in {path.parent}")
        missing.hint = "run `odc-analyst join INVITATION` first; a key that was lost comes back from a backup"
        raise missing
    try:
        key = load_pem_private_key(read_bytes(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # damaged, under a passphrase, of a strange kind
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        damaged = refusal(f"{path} is not an ECDSA key")
        damaged.hint = "restore the file from a backup: a certificate is for one key alone"
        raise damaged
    return key
