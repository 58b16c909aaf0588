"""The settings of the analyst's process: environment variables ``ODC_ANALYST_*`` or options of `serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from metering.counts import Counter, kernel_counts


class Settings(BaseSettings):
    """Every setting with its default. docs/operations.md explains each."""

    model_config = SettingsConfigDict(env_prefix="ODC_ANALYST_")

    data_dir: Path = Path("analyst-data")
    """Directory of keys, blobs and, unless ``database_url`` names another, the database."""
    host: str = "0.0.0.0"  # noqa: S104  # the process exists to be reached by the institutions
    port: int = Field(default=8443, ge=0, le=65535)
    database_url: str = ""
    """SQLAlchemy address; empty means SQLite in ``data_dir``."""
    max_uplink_bytes: int = Field(default=64 * 2**30, ge=1)
    """Largest payload of one uplink."""
    body_idle_timeout_s: float = Field(default=60.0, gt=0)
    """An upload that sends nothing for this long is cut off; the chunks that have arrived are kept."""
    status_wait_s: int = Field(default=25, ge=0, le=60)
    """How long the answer to somebody who waits for a change of a status is held at most; 0: never."""
    compute_processes: int = Field(default=1, ge=1)
    """How many rounds are computed at once, each in a process of its own."""
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

    @property
    def database(self) -> str:
        """Return the SQLAlchemy address of the database."""
        return self.database_url or f"sqlite:///{self.data_dir / 'odc.sqlite'}"

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
        """Return the directory of the arrays."""
        return self.data_dir / "blobs"
