"""The options that bring a certificate of our own PKI, to join and to renew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.errors import InputError
from runtime.files import read_bytes
from user_client.cli.options import ask_passphrase, path_in_environment
from user_client.errors import PassphraseError, PassphraseNeededError
from user_client.sdk import OwnCertificate, read_own_certificate, read_own_key

CertificateFile = Annotated[
    Path | None,
    typer.Option("--cert", help="our certificate of our own PKI, then the intermediate ones, without the CA"),
]
AuthorityFile = Annotated[
    Path | None, typer.Option("--ca", help="with --cert: the CA it leads to, checked here before we ask")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key", help="with --cert: its key (PEM), ECDSA P-256; it becomes ours here")
]
KeyPassphraseFile = Annotated[
    Path | None,
    typer.Option(help="file with the passphrase of --key; else asked for [env: ODC_KEY_PASSPHRASE_FILE]"),
]


def own_certificate(
    certificate: Path | None, authority: Path | None, key: Callable[[], ec.EllipticCurvePrivateKey]
) -> OwnCertificate | None:
    """Read what was brought for a key, if anything was; raises `InputError`."""
    if certificate is not None:
        return read_own_certificate(
            read_bytes(certificate), key(), read_bytes(authority) if authority else None
        )
    if authority is not None:
        raise InputError("--ca is what --cert is checked by: give both")
    return None


def read_key(file: Path | None, passphrase_file: Path | None) -> ec.EllipticCurvePrivateKey:
    """Read the key that belongs to --cert, asking for its passphrase if it has one; raises `InputError`."""
    if file is None:
        raise InputError("--cert needs the certificate's key: --key KEY.pem")
    named = passphrase_file or path_in_environment("ODC_KEY_PASSPHRASE_FILE")
    try:
        return read_own_key(
            read_bytes(file), lambda: ask_passphrase("Passphrase of --key", named, is_new=False)
        )
    except (PassphraseError, PassphraseNeededError) as error:
        error.hint = "name a file that holds it: --key-passphrase-file FILE, or ODC_KEY_PASSPHRASE_FILE"
        raise
