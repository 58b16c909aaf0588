"""The settings of the analyst's process: environment variables ``ODC_ANALYST_*`` or options of `serve`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from metering.counts import Counter, kernel_counts
from runtime.confinement import machine_bytes

_DIRECTORY: Final = "file://"
_PREFIX: Final = "ODC_ANALYST_"
_MOST_FOR_SERVER_BYTES: Final = 2**29


class Settings(BaseSettings):
    """Every setting with its default. docs/operations.md explains each."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX)

    data_dir: Annotated[Path, AfterValidator(Path.absolute)] = Path("analyst-data")
    """Directory of keys, blobs and, unless ``database_url`` names another, the database.

    Absolute, because the processes that compute leave the directory that the server was started in.
    """
    host: str = "0.0.0.0"  # noqa: S104  # the process exists to be reached by the institutions
    port: int = Field(default=8443, ge=0, le=65535)
    database_url: str = Field(default="", repr=False)  # it may have a password in it
    """SQLAlchemy address, of SQLite or PostgreSQL; empty means SQLite in ``data_dir``."""
    blob_url: str = ""
    """Address of S3-compatible storage for the arrays, ``s3://BUCKET/PREFIX``, or of a directory that several
    servers share, ``file:///PATH``; empty means ``data_dir``.

    The variables ``AWS_*`` say how it is reached; they are no settings of ours.
    """
    behind_balancer: bool = False
    """Answer a balancer alone, which shows the analyst's own certificate, and believe its header
    ``Client-Cert``."""
    max_uplink_bytes: int = Field(default=64 * 2**30, ge=1)
    """Largest payload of one uplink."""
    max_party_bytes: int = Field(default=0, ge=0)
    """Payload of all uplinks of one party together, in the rounds that have not ended; 0: no limit."""
    max_collaboration_bytes: int = Field(default=0, ge=0)
    """Payload of all uplinks of one collaboration together; 0: no limit."""
    body_idle_timeout_s: float = Field(default=60.0, gt=0)
    """An upload that sends nothing for this long is cut off; the chunks that have arrived are kept."""
    connection_timeout_s: float = Field(default=60.0, gt=0)
    """How long a connection may take for a handshake, for a head, for what comes after an answer, and until
    the next request."""
    max_connections: int = Field(default=4096, ge=2)
    """Connections in all; fewer where the process may not open twice as many files."""
    max_strangers: int = Field(default=256, ge=1)
    """Of these, connections that have shown no certificate (yet); a quarter of all at most."""
    max_strangers_per_address: int = Field(default=64, ge=1)
    """Of these, from one address (IPv6: from one network of 64 bits)."""
    max_connections_per_certificate: int = Field(default=64, ge=1)
    """Connections of one party."""
    requests_per_s: float = Field(default=200.0, gt=0)
    """Requests a second of one certificate, one token, or one address without either; 20 seconds' worth may
    come at once."""
    drain_s: int = Field(default=5, ge=1)
    """How long requests under way may take to end when the server is stopped; uploads are cut off then."""
    status_wait_s: int = Field(default=25, ge=0, le=60)
    """How long the answer to somebody who waits for a change of a status is held at most; 0: never."""
    compute_processes: int = Field(default=1, ge=1)
    """How many rounds are computed at once, each in a process of its own."""
    compute_memory_mb: int = Field(default=0, ge=0)
    """What one of these processes may take, in 2**20 bytes; 0: what the machine or container has, less the
    server's part, shared by all of them. Training that needs more fails, and nothing else does."""
    compute_url: str = Field(default="", pattern=r"^((tcp|tls)://[^/@\s]+)?$")
    """Address of the Dask scheduler whose workers compute, ``tcp://HOST:PORT`` or ``tls://HOST:PORT``; empty
    means processes of this machine."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of the metrics for Prometheus; 0: none."""
    metrics_host: str = "127.0.0.1"
    """Address of the metrics. On any but the loopback they need TLS and a token."""
    metrics_token_file: Path | None = None
    """File of the bearer token that whoever asks for metrics has to show."""
    webhook_url: str = Field(default="", repr=False)  # whoever knows a path may be who may use it
    """Where to POST an event once a collaboration begins to wait for somebody; empty: nowhere."""
    webhook_secret_file: Path | None = None
    """File of the secrets that sign the events, one a line."""
    poll_s: float = Field(default=0.2, gt=0)
    """How often the worker looks for a sealed round, or for one that is expected soon, so that its libraries
    are loaded in time."""
    lease_s: int = Field(default=10, ge=2)
    """A round whose worker has been silent for this long is computed again by another; at once if it was a
    worker in this data directory whose process has ended."""
    hold_release: bool = False
    """Wait for ``odc-analyst collaboration release`` before institutions can fetch."""
    train_on_suspected_rows: bool = False
    """Also train on the rows of parties that break an assumption of the alignment."""
    counter: Literal["auto", "transport"] = "auto"
    """What counts the bytes on the wire: the kernel where it can, or always our own sockets."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)] = "info"
    """No finer level exists here: a web server that logs every header would log API tokens."""
    log_format: Literal["text", "json"] = "text"
    """Lines for people, or one JSON object for each."""

    @property
    def database(self) -> str:
        """Return the SQLAlchemy address of the database."""
        return self.database_url or f"sqlite:///{self.data_dir / 'odc.sqlite'}"

    @property
    def compute_memory_bytes(self) -> int:
        """Return what one compute process may take; 0 where nobody knows what there is.

        What it may not take keeps the server alive: a container that runs out of memory is killed as a whole.
        """
        there_is = machine_bytes()
        left = there_is - min(there_is // 8, _MOST_FOR_SERVER_BYTES)
        return self.compute_memory_mb * 2**20 or left // self.compute_processes

    @property
    def bytes_counted_by(self) -> Counter:
        """Return what counts the bytes on this machine."""
        return "kernel" if self.counter == "auto" and kernel_counts() else "transport"

    @property
    def identity_dir(self) -> Path:
        """Return the directory of the analyst's key and certificate."""
        return self.data_dir / "identity"

    @property
    def lease_dir(self) -> Path:
        """Return the directory of the locks that workers hold while they live."""
        return self.data_dir / "workers"

    @property
    def blob_dir(self) -> Path:
        """Return the directory of the arrays, or of what is read for a while of those in S3."""
        if self.blob_url.startswith(_DIRECTORY):
            return Path(unquote(self.blob_url.removeprefix(_DIRECTORY)))
        return self.data_dir / "blobs"


def variable(setting: str) -> str:
    """Return the environment variable of a setting."""
    return _PREFIX + setting.upper()


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Return the variables that look like settings and are none, which nothing would read."""
    known = {variable(name) for name in Settings.model_fields}
    return sorted(
        name for name in environment if name.upper().startswith(_PREFIX) and name.upper() not in known
    )
