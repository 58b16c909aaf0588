"""Settings of the analyst's process: environment variables ``ODC_ANALYST_*`` or command options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from metering.counts import Counter, kernel_counts


class Settings(BaseSettings):
    """Every knob, with its default. docs/operations.md explains each."""

    model_config = SettingsConfigDict(env_prefix="ODC_ANALYST_")

    data_dir: Path = Path("analyst-data")
    """Keys, database and blobs live here unless a setting below says otherwise."""
    host: str = "0.0.0.0"  # noqa: S104  # one port towards the institutions is what the process is for
    port: int = Field(default=8443, ge=0, le=65535)
    database_url: str = ""
    """SQLAlchemy address; empty means SQLite in ``data_dir``."""
    max_uplink_bytes: int = Field(default=64 * 2**30, ge=1)
    """Payload of one uplink."""
    body_idle_timeout_s: float = Field(default=60.0, gt=0)
    """An upload that sends nothing for this long is cut; what has arrived is kept."""
    compute_processes: int = Field(default=1, ge=1)
    poll_s: float = Field(default=0.2, gt=0)
    """How often the worker looks for a sealed round, and for one to come that it loads its libraries for."""
    lease_s: int = Field(default=10, ge=2)
    """A round whose worker has not been heard of for this long is taken up again."""
    hold_release: bool = False
    """Wait for ``odc-analyst collaboration release`` before institutions can fetch."""
    train_on_suspected_rows: bool = False
    """Train on the rows of a party that breaks an assumption of the alignment, too."""
    counter: Literal["auto", "transport"] = "auto"
    """Who counts bytes on the wire: the kernel where it can, or always our own sockets."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)] = "info"
    """No finer one: a web server that logs every header would log API tokens."""

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir / 'odc.sqlite'}"

    @property
    def bytes_counted_by(self) -> Counter:
        return "kernel" if self.counter == "auto" and kernel_counts() else "transport"

    @property
    def identity_dir(self) -> Path:
        return self.data_dir / "identity"

    @property
    def blob_dir(self) -> Path:
        return self.data_dir / "blobs"
