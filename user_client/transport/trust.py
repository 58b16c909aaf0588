"""Whom a connection believes, and who it says that we are; a file that cannot be used is named."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from protocol.errors import UnreadableFileError

_HINT: Final = "restore the state directory whole from a backup"


def trusting(root_pem: str, revocations: Path | None) -> ssl.SSLContext:
    """Return a TLS context that believes this root alone, and nobody on its revocation list (PEM).

    Raises `UnreadableFileError` if one of the two is damaged.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=root_pem)
    except (OSError, ValueError, TypeError):
        raise _unusable("the root's certificate", "it is damaged") from None
    if revocations is not None:
        try:
            context.load_verify_locations(revocations)
        except OSError as error:
            raise _unusable(revocations, _reason(error, "it is damaged")) from None
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def show(context: ssl.SSLContext, certificate: Path, key: Path, password: bytes | None) -> None:
    """Let connections show a certificate, whose key may be encrypted; raises `UnreadableFileError`."""
    try:
        # a password is always given, because OpenSSL would otherwise ask at the terminal
        context.load_cert_chain(certificate, key, password=lambda: password or b"")
    except (OSError, ValueError) as error:
        damaged = "one of them is damaged, or they do not belong together"
        raise _unusable(f"{certificate} and {key}", _reason(error, damaged)) from None


def _reason(error: Exception, damaged: str) -> str:
    """Return why a file cannot be used; what the TLS library says of a damaged one helps nobody."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or "unknown reason"
    return damaged


def _unusable(what: object, reason: str) -> UnreadableFileError:
    error = UnreadableFileError(what, reason)
    error.hint = _HINT
    return error
