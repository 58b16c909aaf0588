"""What would leave and what that risks, as `odc prepare` prints it and the state directory keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from protocol.errors import InputError
from protocol.messages import LABELS, PrivacyRecord, UplinkManifest
from user_client.custody.round_directory import (
    MANIFEST_FILE,
    PAYLOAD_FILE,
    PREPARED_FILE,
    RoundDirectory,
)
from user_client.privacy.information import Information
from user_client.privacy.isolation import Isolated
from user_client.privacy.reduction import ReductionRisk, ThresholdRisk
from user_client.sdk.desk import Attack
from user_client.sdk.hold_out import HoldOut, LocalFit, store_hold_out, store_local_model
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.releases import Overlap, SeenRows
from user_client.sdk.session import Session
from user_client.secret.local_model import LocalModel
from user_client.secret.signal import Signal


@dataclass(frozen=True)
class PreparedArray:
    """One array of the uplink."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    payload_bytes: int


@dataclass(frozen=True)
class NoiseOfSums:
    """What the terms' noise has done to sums."""

    deviation: float
    """Standard deviation of our own noise in each number, for rows of length 1."""
    clipped_rows: int


@dataclass(frozen=True)
class Prepared:
    """What would leave, and the risk of sending it. This stays here: the analyst may not know all of it."""

    rows: int
    table_rows: int
    """Rows of the table; those that do not leave are kept back, or were left out by ``drop_below``."""
    features: int
    latent_dim: int
    payload_bytes: int
    formula_bytes: float
    arrays: tuple[PreparedArray, ...]
    hidden_share: ReductionRisk | None
    """Quantiles of the share of a row along the axes that are projected away."""
    collusion_error: ReductionRisk | None
    """With noise: quantiles of ``||x - x^|| / ||x||``, x^ being the row as the two could rebuild it."""
    threshold: ThresholdRisk | None
    signal: Signal | None
    """How much of the rows' own score lies along their leading axes; None if the rows cannot tell."""
    singular_values: list[float] = field(repr=False)
    """Of the rows the basis was drawn from, in decreasing order."""
    noise_sigma: float | None
    privacy: PrivacyRecord
    """What the manifest states was done to the rows."""
    options: PrivacyOptions
    """The options that were asked for. With ``source`` they tell whether the same is prepared again."""
    source: str
    """Digest of the table file."""
    most_latent_dim: int | None = None
    """How many numbers of each row we could choose to send; None where the terms leave no choice."""
    held_out_rows: int = 0
    """Rows that are kept back to evaluate on."""
    alone: LocalFit | None = None
    """The model of our own rows alone; None if these are of fewer than two classes."""
    model: str = ""
    """The kind of the collaboration's model."""
    information: Information | None = None
    """How many bits a row holds, and how many of them can leave; None if there are no rows."""
    overlaps: tuple[Overlap, ...] = ()
    """Earlier rounds to which rows of the table were sent."""
    repeated_rows: int = 0
    """Rows of the table that equal one before them in every column."""
    attacks: tuple[Attack, ...] = ()
    """What the desk's attacks have found; empty if they were not asked for."""
    would_pass: str | None = None
    """Terms under which our policy would allow the same rows, if it does not and there are some."""
    least_signal: float | None = None
    """What the terms ask for of ``signal.kept``."""
    uplink: Literal["rows", "sums"] = "rows"
    """What leaves. Of sums, nothing is measured on the rows, because none leaves."""
    sums_noise: NoiseOfSums | None = None
    members_get_total: bool = False
    """Whether every institution gets the total of the sums (``cohort``), and reads it."""
    isolated: Isolated | None = None
    """The column that carries the variance of the rows, which the analyst can read off; None if none does."""

    @property
    def has_labels(self) -> bool:
        """Whether labels leave with the rows: of joined rows another institution may have them."""
        return all(array.shape[0] > 0 or not self.rows for array in self.arrays if array.name == LABELS)

    def to_json(self) -> dict[str, Any]:
        """Return this as `odc prepare` stores and prints it."""
        content: dict[str, Any] = _stored().dump_python(self, mode="json")
        for array in content["arrays"]:
            array["bytes"] = array.pop("payload_bytes")
        return content

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Prepared:
        """Return what `to_json` was made from; raises `ValueError` or the like for another value."""
        arrays = [{**array, "payload_bytes": array["bytes"]} for array in value["arrays"]]
        for array in arrays:
            del array["bytes"]
        return _stored().validate_python({**value, "arrays": arrays})


def store_prepared(
    session: Session,
    directory: RoundDirectory,
    prepared: Prepared,
    manifest: UplinkManifest,
    kept: HoldOut,
    alone: LocalModel | None,
    seen: SeenRows,
    leaving: NDArray[np.bool_],
) -> None:
    """Write what goes with an uplink whose payload and secret are here already.

    The summary is written last: without it, the other files count as unfinished.

    Parameters
    ----------
    kept, alone
        The rows that are kept back to evaluate on, and the model of our own rows to compare with.
    seen, leaving
        The rows of the table, and which of them leave, or are summed: (n,) ndarray of bool.
    """
    store_hold_out(directory, kept)
    store_local_model(directory, alone)
    seen.store(directory, leaving)
    directory.write(UplinkManifest, session.sign(manifest))
    directory.mark_checked(MANIFEST_FILE, PAYLOAD_FILE)  # the digests are of what was just written
    directory.write_secret(PREPARED_FILE, json.dumps(prepared.to_json(), indent=2).encode())


@cache
def _stored() -> TypeAdapter[Prepared]:
    """Return what reads and writes it; building that takes longer than most commands have for it."""
    return TypeAdapter(Prepared)


def prepared_before(directory: RoundDirectory) -> Prepared | None:
    """Return what was prepared last, or None if nothing was."""
    if not directory.holds(PREPARED_FILE):
        return None
    data = directory.read_secret(PREPARED_FILE)
    try:
        return Prepared.from_json(json.loads(data))
    except (ValueError, TypeError, KeyError, InputError):  # written by another version: prepared again
        return None
