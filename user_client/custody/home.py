"""The state directory of one institution: who it is, its keys, and what it keeps of each round.

::

    membership.json  key.pem  certificate.pem  root.pem     who we are
    invitation.json                                         while joining; removed afterwards
    consortium/                                             the lead institution only
        root.locked  root.pem  invitations/ID.json
        issued/SERIAL.pem                                   every certificate this root has issued
        mappings/PARTY.json                                 CA and name of parties with a PKI of their own
    revocations.crl                                         the newest revocation list we know
    renewal.odc                                             while our certificate is renewed
    collaborations/ID/                                      one round (`round_directory`)
    analyst.json                                            wire versions of the analyst, for a day
    analyst.keys                                            digests of the analyst's keys, the present last
    traffic.jsonl                                           bytes on the wire, by kind: counts only
    policy.toml                                             what attacks on our own rows may find at most
    storage.locked                                          if a passphrase protects this directory

In a protected directory the files that `SECRETS` names are sealed (`vault`), except for ``key.pem``, which is
an encrypted PEM that the TLS library opens by itself: no plain key is written to the disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, get_args

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from protocol.errors import CertificateRefusedError, InputError, UnreadableFileError
from protocol.identity import Identity, TrustRoot, load_certificate, same_key
from protocol.messages import Role
from protocol.texts import is_id
from runtime.files import locked, one_at_a_time, read_bytes, write_whole, writing_whole
from user_client.custody.vault import Vault, is_sealed
from user_client.errors import BusyError, NotJoinedError, PassphraseNeededError

SECRETS: Final = (
    "key.pem",
    "invitation.json",
    "consortium/root.locked",
    "consortium/invitations/*.json",
    "collaborations/*/sealing.key",
    "collaborations/*/mask.key",
    "collaborations/*/basis.npy",
    "collaborations/*/features.npz",
    "collaborations/*/total.bin",
    "collaborations/*/model_with_rows.onnx",
    "collaborations/*/prepared.json",
    "collaborations/*/hold_out.json",
    "collaborations/*/local_model.npz",
    "collaborations/*/trained_model.npz",
    "collaborations/*/release.bin",
    "collaborations/*/release.json",
    "collaborations/*/kept/*/basis.npy",
    "collaborations/*/kept/*/prepared.json",
    "collaborations/*/kept/*/hold_out.json",
    "collaborations/*/kept/*/local_model.npz",
    "collaborations/*/kept/*/release.bin",
    "collaborations/*/kept/*/release.json",
)
"""Every file that contains a secret. `Home.write_secret` writes no other, so this list is complete."""


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Let one command at a time work in a directory; raises `BusyError` in the second."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(directory))
        except BlockingIOError:
            raise BusyError("another odc command works on this collaboration") from None
        yield


def is_encrypted(pem: bytes) -> bool:
    """Return whether a private key in PEM needs a password."""
    return pem.startswith(b"-----BEGIN ENCRYPTED")


def key_pem(key: PrivateKeyTypes, password: bytes | None) -> bytes:
    """Return a private key in PEM, encrypted if there is a password."""
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


def revocations_der(data: bytes) -> bytes:
    """Return a revocation list in DER, from a file in DER or PEM; raises `CertificateRefusedError`."""
    if not data.startswith(b"-----BEGIN"):
        return data
    try:
        return x509.load_pem_x509_crl(data).public_bytes(Encoding.DER)
    except ValueError:
        raise CertificateRefusedError("the revocation list cannot be read") from None


@dataclass(frozen=True)
class Membership:
    """Which consortium this institution belongs to, and as what."""

    consortium: str
    consortium_id: str
    analyst_url: str
    role: Role
    party: str
    certificate_name: str | None = None
    """Our name in our own PKI, if the lead requires a certificate from it."""

    @property
    def identity(self) -> Identity:
        return Identity(self.consortium_id, self.role, self.party)


class Home:
    """Reads and writes the state directory; knows the place of each file, and how secret ones are stored.

    Parameters
    ----------
    passphrase : callable, optional
        Returns the passphrase of a protected directory; called at most once, when a secret is needed.
    """

    def __init__(self, path: Path, passphrase: Callable[[], str] | None = None) -> None:
        self.path = path
        self._passphrase = passphrase
        self._vault: Vault | None = None

    def __repr__(self) -> str:
        return f"<Home {self.path}>"

    @property
    def key_path(self) -> Path:
        return self.path / "key.pem"

    @property
    def certificate_path(self) -> Path:
        return self.path / "certificate.pem"

    @property
    def root_path(self) -> Path:
        return self.path / "root.pem"

    @property
    def invitation_path(self) -> Path:
        return self.path / "invitation.json"

    @property
    def consortium_path(self) -> Path:
        return self.path / "consortium"

    @property
    def root_key_path(self) -> Path:
        return self.consortium_path / "root.locked"

    @property
    def storage_key_path(self) -> Path:
        return self.path / "storage.locked"

    @property
    def revocations_path(self) -> Path:
        return self.path / "revocations.crl"

    @property
    def renewal_path(self) -> Path:
        return self.path / "renewal.odc"

    @property
    def analyst_path(self) -> Path:
        return self.path / "analyst.json"

    @property
    def analyst_keys_path(self) -> Path:
        return self.path / "analyst.keys"

    def analyst_keys(self) -> list[str]:
        """Return the digests of the analyst's keys that were believed here, the present one last."""
        return self.analyst_keys_path.read_text().split() if self.analyst_keys_path.exists() else []

    def believe_analyst(self, key: str) -> None:
        """Believe the analyst's key with this digest from now on, and no other."""
        keys = [*(known for known in self.analyst_keys() if known != key), key]
        write_whole(self.analyst_keys_path, "".join(f"{known}\n" for known in keys).encode())

    @property
    def traffic_path(self) -> Path:
        return self.path / "traffic.jsonl"

    @property
    def policy_path(self) -> Path:
        return self.path / "policy.toml"

    def collaboration(self, collaboration_id: str) -> Path:
        """Return the directory of one round; raises `InputError` if the id is malformed.

        The id comes from a person or from the analyst, and must not lead outside the state directory.
        """
        if not is_id(collaboration_id):
            raise InputError(
                "a collaboration's id is 32 hexadecimal digits, of which the first 4 or more are enough;"
                " `odc` shows it"
            )
        return self.path / "collaborations" / collaboration_id

    def collaborations_with(self, file: str) -> list[str]:
        """Return the ids of the rounds that hold a file. A directory of another name is somebody's copy."""
        ids = {path.parent.name for path in (self.path / "collaborations").glob(f"*/{file}")}
        return sorted(name for name in ids if is_id(name))

    def make_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the identity key; generate it if there is none. It is never replaced."""
        if not self.key_path.exists():
            self.write_key(ec.generate_private_key(ec.SECP256R1()))
        return self.key()

    def adopt_key(self, key: ec.EllipticCurvePrivateKey) -> None:
        """Use a key generated elsewhere as the identity key; raises `InputError` if there is another."""
        if not self.key_path.exists():
            self.write_key(key)
        elif not same_key(self.key().public_key(), key.public_key()):
            error = InputError(f"{self.path} has another key already, and a key is never replaced")
            error.hint = "join with the key from before, or use a new state directory: `odc --home DIR`"
            raise error

    def write_key(self, key: PrivateKeyTypes) -> None:
        """Store the identity key, encrypted if the directory is protected."""
        vault = self._unlocked()
        write_whole(self.key_path, key_pem(key, vault.key_password if vault else None))

    def key(self) -> ec.EllipticCurvePrivateKey:
        """Return the identity key.

        Raises `NotJoinedError`, `UnreadableFileError`, or `CertificateRefusedError` for one of another kind.
        """
        pem, password = self._read("key.pem"), self.key_password()
        try:
            key = load_pem_private_key(pem, password)
        except (ValueError, UnsupportedAlgorithm):
            raise _lost(UnreadableFileError(self.key_path, "it is damaged")) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateRefusedError(f"{self.key_path} is not an ECDSA key")
        return key

    def key_password(self) -> bytes | None:
        """Return the password of ``key.pem``; None if it is not encrypted."""
        vault = self._unlocked()
        if is_encrypted(self._read("key.pem")) == (vault is None):
            raise self._wrongly_stored(self.key_path)
        return vault.key_password if vault else None

    def is_protected(self) -> bool:
        """Return whether the secrets here are sealed under a passphrase."""
        return self.storage_key_path.exists()

    @property
    def is_unlocked(self) -> bool:
        """Whether the passphrase of a protected directory is known already."""
        return self._vault is not None

    def unlock(self, passphrase: str) -> Vault:
        """Open the vault of a protected directory; raises `PassphraseError`, or `InputError`."""
        if not self.is_protected():
            raise InputError(f"{self.path} is not protected by a passphrase")
        self._vault = Vault.unlock(self.storage_key_path.read_bytes(), passphrase)
        return self._vault

    def make_storage_key(self, passphrase: str) -> None:
        """Generate the key that seals the secrets here, and lock it: the directory is now protected."""
        vault = Vault.create()
        write_whole(self.storage_key_path, vault.lock(passphrase))
        self._vault = vault

    def secrets(self) -> list[Path]:
        """Return the files of `SECRETS` that exist."""
        return sorted(path for pattern in SECRETS for path in self.path.glob(pattern))

    def write_secret(self, path: Path, *parts: bytes | memoryview) -> None:
        """Write one of `SECRETS` whole, sealed if the directory is protected."""
        write_whole(path, *self._as_stored(path, parts))

    def write_secret_of(self, path: Path, parts: Iterable[bytes | memoryview]) -> None:
        """Write one of `SECRETS` as `write_secret` does, and ask for one part of it at a time."""
        with writing_whole(path) as file:
            for part in self._as_stored(path, parts):
                file.write(part)

    def _as_stored(self, path: Path, parts: Iterable[bytes | memoryview]) -> Iterable[bytes | memoryview]:
        name, vault = path.relative_to(self.path), self._unlocked()
        if not self.is_secret(path):
            raise ValueError(f"{name} is not known as a secret")
        return vault.seal(name.as_posix(), parts) if vault else parts

    def is_secret(self, path: Path) -> bool:
        """Return whether a file is one of `SECRETS`."""
        name = path.relative_to(self.path)
        return any(name.match(pattern) for pattern in SECRETS)

    def read_secret(self, path: Path) -> bytes:
        """Read one of `SECRETS`.

        Raises
        ------
        PassphraseNeededError, PassphraseError
            If the directory is protected and the passphrase is not known, or wrong.
        UnreadableFileError
            If the file is damaged or missing.
        """
        try:
            data = read_bytes(path)
        except UnreadableFileError as error:
            raise _lost(error) from None
        vault = self._unlocked()
        if is_sealed(data) == (vault is None):
            raise self._wrongly_stored(path)
        return vault.open(path.relative_to(self.path).as_posix(), data) if vault else data

    def _unlocked(self) -> Vault | None:
        """Return the vault of a protected directory, opened at most once, or None."""
        if not self.is_protected():
            return None
        if self._vault is None:
            if self._passphrase is None:
                raise PassphraseNeededError(f"{self.path} is protected by a passphrase")
            self.unlock(self._passphrase())
        return self._vault

    def _wrongly_stored(self, path: Path) -> UnreadableFileError:
        if not self.is_protected():
            missing = self.storage_key_path.name
            return _lost(UnreadableFileError(path, f"it is sealed, and {missing} is missing"))
        error = UnreadableFileError(path, "it is not sealed, in a protected directory")
        error.hint = "`odc protect` was interrupted: run it again, it continues"
        return error

    def certificate(self) -> x509.Certificate:
        """Return our certificate."""
        return load_certificate(self._read("certificate.pem"))

    def root(self) -> TrustRoot:
        """Return the consortium's root, with the newest revocation list we have."""
        root = TrustRoot(load_certificate(self._read("root.pem")))
        if self.revocations_path.exists():
            root.adopt(revocations_der(self.revocations_path.read_bytes()))
        return root

    def membership(self) -> Membership:
        """Return who we are; raises `NotJoinedError`."""
        if self.invitation_path.exists() and not (self.path / "membership.json").exists():
            error = NotJoinedError("we have asked to join, and the lead institution has not approved yet")
            error.hint = (
                "the lead runs `odc consortium approve`; then run `odc join` again, or `odc join --wait 600`"
            )
            raise error
        try:
            stored = Membership(**json.loads(self._read("membership.json")))
            is_known = stored.role in get_args(Role)
        except (ValueError, TypeError):
            is_known = False
        if not is_known:
            raise NotJoinedError(f"{self.path / 'membership.json'} is damaged")
        return stored

    def write_membership(
        self, membership: Membership, certificate: x509.Certificate, root: x509.Certificate
    ) -> None:
        """Store a membership; ``membership.json`` is written last, so an interrupted join does not count."""
        write_whole(self.root_path, root.public_bytes(Encoding.PEM))
        write_whole(self.certificate_path, certificate.public_bytes(Encoding.PEM))
        write_whole(self.path / "membership.json", json.dumps(asdict(membership), indent=2).encode())

    def adopt_revocations(self, der: bytes) -> TrustRoot:
        """Store a revocation list, if it may take the place of the one we have, and return the root with it.

        Raises `CertificateRefusedError`.
        """
        with self.changing_revocations() as root:
            root.adopt(der)
            self.write_revocations(der)
        return root

    @contextmanager
    def changing_revocations(self) -> Iterator[TrustRoot]:
        """Lend the root with the revocation list we have; no other process changes the list meanwhile."""
        with one_at_a_time(self.path / ".revocations.lock"):
            yield self.root()

    def write_revocations(self, der: bytes) -> None:
        """Store a revocation list in PEM, which the TLS library reads; for `changing_revocations` alone."""
        crl = x509.load_der_x509_crl(der)
        write_whole(self.revocations_path, crl.public_bytes(Encoding.PEM))

    def write_certificate(self, certificate: x509.Certificate) -> None:
        """Replace our certificate by a newer one for the same key."""
        write_whole(self.certificate_path, certificate.public_bytes(Encoding.PEM))

    def is_joined(self) -> bool:
        """Return whether this institution belongs to a consortium."""
        return (self.path / "membership.json").exists()

    def _read(self, name: str) -> bytes:
        path = self.path / name
        if not path.exists():
            raise NotJoinedError(f"there is no {name} in {self.path}")
        return path.read_bytes()


def _lost(error: UnreadableFileError) -> UnreadableFileError:
    """Return the error of a file that nobody can make again, with what to do."""
    error.hint = "restore the state directory whole from a backup"
    return error
