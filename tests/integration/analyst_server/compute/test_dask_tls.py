"""A scheduler that is reached by TLS alone, with Dask's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dask
import distributed  # noqa: F401  # its defaults have to be there before they are changed for a while
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from analyst_server.compute.dask_pool import DaskPool, require_certificate
from protocol.errors import InputError
from tests.harness.dask import cluster

TLS = "distributed.comm.tls"


def certificate(folder: Path) -> dict[str, Any]:
    """Make a certificate that is its own authority; return Dask's settings with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dask")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "dask.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "dask.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files = {f"{TLS}.ca-file": str(folder / "dask.pem")}
    for role in ("scheduler", "worker", "client"):
        files |= {
            f"{TLS}.{role}.cert": str(folder / "dask.pem"),
            f"{TLS}.{role}.key": str(folder / "dask.key"),
        }
    return {**files, "distributed.comm.require-encryption": True}


def variables(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as the environment has them."""
    return {
        f"DASK_{name.upper().replace('.', '__').replace('-', '_')}": str(value)
        for name, value in settings.items()
    }


def test_a_step_runs_over_tls_with_a_certificate_that_has_to_be_named(tmp_path: Path) -> None:
    settings = certificate(tmp_path)
    with (
        dask.config.set(settings),
        cluster(tmp_path / "cluster", tmp_path / "blobs", 1, variables=variables(settings)) as made,
    ):
        require_certificate(made.url, "client")
        pool = DaskPool(made.url)
        try:
            assert pool.submit(sum, [1, 2]).result(60) == 3
        finally:
            pool.shutdown()
        with dask.config.set({f"{TLS}.client.cert": None, f"{TLS}.client.key": None}):
            with pytest.raises(InputError, match="name no certificate") as caught:
                require_certificate(made.url, "client")
            assert "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT" in caught.value.hint


def test_an_address_without_tls_needs_no_certificate() -> None:
    require_certificate("tcp://127.0.0.1:8786", "client")
    with pytest.raises(InputError):
        require_certificate("tls://127.0.0.1:8786", "worker")
