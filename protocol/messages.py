"""What is sent besides the terms: frozen, valid once constructed, each bound to its own label.

Layout and rules of every message stand in docs/protocol.md. Times are whole seconds since 1970 UTC.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import FailFast, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from protocol.codec import Message, without_absent
from protocol.joined_rows import ROW_KEY_BYTES, ROW_KEYS
from protocol.limits import (
    DEFAULT_CHUNK_BYTES,
    MAX_ARRAY_BYTES,
    MAX_CHAIN_CERTIFICATE_BYTES,
    MAX_CHAIN_CERTIFICATES,
    MAX_CHUNK_BYTES,
    MAX_DITHER,
    MAX_GROUPED_PARTIES,
    MAX_ROWS,
    MAX_SUMS_PARTIES,
    MIN_CHUNK_BYTES,
)
from protocol.model_groups import models_digest
from protocol.sums import MASK_KEY_BYTES, SUMS, TOTAL
from protocol.texts import Identifier, Name, PartyName

Digest = Annotated[bytes, Field(min_length=32, max_length=32)]
Blob = Annotated[bytes, Field(min_length=1, max_length=2**16)]
Chain = Annotated[
    tuple[Annotated[bytes, Field(min_length=1, max_length=MAX_CHAIN_CERTIFICATE_BYTES)], ...],
    FailFast(),
    Field(max_length=MAX_CHAIN_CERTIFICATES),
]
"""Certificates of a party's own PKI (DER), that of its key first. Most parties send none."""
UnixTime = Annotated[int, Field(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, until the end of the year 9999: the last year that Python and SQL can represent."""
Count = Annotated[int, Field(ge=0, lt=2**53)]
"""A count that JSON can represent exactly, too."""
Share = Annotated[float, Field(ge=0, le=1)]
MaskKey = Annotated[bytes, Field(min_length=MASK_KEY_BYTES, max_length=MASK_KEY_BYTES)]
"""An X25519 public key."""
Role = Literal["lead", "institution", "analyst"]
SealingSuite = Literal["mlkem768-x25519", "x25519", "mlkem1024-p384", "p256"]

DTYPE_BYTES = {"f2": 2, "f4": 4, "f8": 8, "u1": 1, "u2": 2, "u8": 8, "i1": 1, "i4": 4, "i8": 8}
"""Number types on the wire; always little-endian."""
Dtype = Literal["f2", "f4", "f8", "u1", "u2", "u8", "i1", "i4", "i8"]
LABELS = "labels"
UPLINK_ARRAYS = ("rep", "anchor_rep", LABELS)
SCALE_ARRAYS = ("rep_scale", "anchor_rep_scale")
"""Two more arrays, if the representations are scaled 8-bit integers: one scale for each column."""

Extent = Annotated[int, Field(ge=0, le=MAX_ROWS)]


class ArraySpec(Message):
    """One array of a transfer: its place in the manifest is its place in the byte stream."""

    name: Name
    dtype: Dtype
    shape: Annotated[tuple[Extent, ...], FailFast()] = Field(min_length=1, max_length=2)
    digest: Digest
    """SHA-256 over the digests of its chunks (`protocol.arrays`)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.payload_bytes > MAX_ARRAY_BYTES:
            raise ValueError(f"at most {MAX_ARRAY_BYTES} bytes")
        return self

    @property
    def payload_bytes(self) -> int:
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]


ChunkBytes = Annotated[int, Field(ge=MIN_CHUNK_BYTES, le=MAX_CHUNK_BYTES, multiple_of=MIN_CHUNK_BYTES)]


class InvitationTicket(Message, extra="allow"):
    """The lead's statement, for the analyst, that a party may request a certificate."""

    signing_label: ClassVar[str] = "odc/v1/invitation-ticket"

    consortium_id: Identifier
    invitation_id: Identifier
    role: Role
    party: PartyName
    expires_at: UnixTime


class Enrolment(Message):
    """A request for a certificate. The MAC is keyed by the join secret, which the analyst never holds."""

    signing_label: ClassVar[str] = "odc/v1/enrolment"

    ticket: Blob
    """A signed `InvitationTicket`."""
    csr: Blob
    """PKCS #10, DER."""
    chain: Chain = ()
    mac: Digest


class Renewal(Message, extra="allow"):
    """A member's request for a new certificate of its own name, signed while the old one is valid."""

    signing_label: ClassVar[str] = "odc/v1/renewal"

    consortium_id: Identifier
    renewal_id: Identifier
    csr: Blob
    """PKCS #10, DER."""
    chain: Chain = ()


class SeenHead(Message):
    """The ledger that the author of a message had seen and checked: its length, and its last entry."""

    length: Count
    digest: Digest


class Acceptance(Message, extra="allow"):
    """An institution's signature under the terms, and the key with which the lead seals its anchor."""

    signing_label: ClassVar[str] = "odc/v1/acceptance"

    collaboration_id: Identifier
    terms_digest: Digest
    shown_digest: Digest
    """Digest of the plain words that a person was shown (`protocol.consent`)."""
    party: PartyName
    sealing_suite: SealingSuite
    sealing_key: Blob
    accept_row_revealing_model: bool = False
    mask_key: MaskKey | None = None
    """Under sums: the key to agree on masks with. Other acceptances have no such field on the wire."""

    seen: SeenHead | None = None
    """Where the terms name the analyst's key: the ledger that this party has seen. Else no field either."""

    @model_serializer(mode="wrap")
    def _content(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_absent(serialise(self), "mask_key", "seen")


class SealedAnchor(Message, extra="allow"):
    """The anchor's seed, sealed by the lead for one member; the analyst relays it unread.

    In the form "matrix" the seed opens the matrix of a public anchor, which is relayed beside it.
    """

    signing_label: ClassVar[str] = "odc/v1/sealed-anchor"

    collaboration_id: Identifier
    terms_digest: Digest
    recipient: PartyName
    form: Literal["seed", "matrix"] = "seed"
    commitment: Digest
    """Digest of the seed, and of the matrix if there is one. It is the same for every member."""
    sealing_suite: SealingSuite
    ciphertext: Blob
    mask_keys: Annotated[tuple[MaskKey, ...], FailFast()] = Field(default=(), max_length=MAX_SUMS_PARTIES)
    """Under sums: the mask key of each party, in the order of the terms. Other anchors have no such field on
    the wire."""

    @model_serializer(mode="wrap")
    def _content(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_absent(serialise(self), "mask_keys")


class PrivacyRecord(Message):
    """What an institution did to its rows before it sent them, as far as the analyst may know."""

    epsilon: float | None = Field(default=None, gt=0)
    delta: float | None = Field(default=None, gt=0, lt=1)
    clip: float | None = Field(default=None, gt=0)
    """Rows were shortened to this length before the noise was added."""
    drop_below: float | None = Field(default=None, gt=0, le=1)
    """Rows of which the projection drops less than this share were left out. Their number is not stated."""
    permute_rows: bool = False
    perturb_basis: float | None = Field(default=None, gt=0, lt=1)
    dither: float | None = Field(default=None, gt=0, le=MAX_DITHER)
    """Noise was added to X_i F_i, as in the terms. Records without it have no such field on the wire."""

    @model_serializer(mode="wrap")
    def _content(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_absent(serialise(self), "dither")

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [value is not None for value in (self.epsilon, self.delta, self.clip)]
        if any(given) and not all(given):
            raise ValueError("epsilon, delta and clip go together")
        return self


class UplinkManifest(Message, extra="allow"):
    """What an institution sends, signed before the first byte of it."""

    signing_label: ClassVar[str] = "odc/v1/uplink"

    collaboration_id: Identifier
    terms_digest: Digest
    party: PartyName
    anchor_commitment: Digest
    chunk_bytes: ChunkBytes = DEFAULT_CHUNK_BYTES
    arrays: Annotated[tuple[ArraySpec, ...], FailFast()] = Field(min_length=1, max_length=6)
    """``rep`` (n_i, l), ``anchor_rep`` (a, l), ``labels`` (n_i,), in this order; for an i1 ``rep`` then
    ``rep_scale`` (l,) and ``anchor_rep_scale`` (l,); of joined rows then ``row_keys`` (n_i, 16), and
    ``labels`` may be empty. Under sums ``sums`` alone, a vector of u8.
    """
    privacy: PrivacyRecord = PrivacyRecord()
    seen: SeenHead | None = None
    """As in an `Acceptance`."""

    @model_serializer(mode="wrap")
    def _content(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_absent(serialise(self), "seen")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.has_sums:
            if self.arrays[0].dtype != "u8" or len(self.arrays[0].shape) != 1:
                raise ValueError("sums is a vector of u8")
            if self.privacy != PrivacyRecord():
                raise ValueError("privacy is about rows, and sums come without any")
            return self
        names = [*UPLINK_ARRAYS, *(SCALE_ARRAYS if self.is_scaled else ())]
        if [spec.name for spec in self.arrays] != [*names, *([ROW_KEYS] if self.row_keys else [])]:
            raise ValueError(
                "the arrays are rep, anchor_rep, labels, the scales of an i1 rep and row_keys, or sums"
            )
        rep, anchor_rep, labels = self.arrays[: len(UPLINK_ARRAYS)]
        if len(rep.shape) != 2 or len(anchor_rep.shape) != 2 or len(labels.shape) != 1:
            raise ValueError("rep and anchor_rep are matrices, labels is a vector")
        if rep.shape[0] != labels.shape[0] and not (self.row_keys and labels.shape[0] == 0):
            raise ValueError("rep and labels must have the same number of rows")
        if (keys := self.row_keys) and (keys.dtype, keys.shape) != ("u1", (rep.shape[0], ROW_KEY_BYTES)):
            raise ValueError(f"row_keys are {ROW_KEY_BYTES} u1 for each row of rep")
        for scale, scaled in zip(self.scales, (rep, anchor_rep), strict=False):
            if scale.dtype != "f4" or scale.shape != scaled.shape[1:]:
                raise ValueError("a scale is an f4 for each column")
        return self

    @property
    def has_sums(self) -> bool:
        """Whether it sends sums in the place of rows."""
        return [spec.name for spec in self.arrays] == [SUMS]

    @property
    def rows(self) -> int:
        """How many rows it sends: under sums none."""
        return 0 if self.has_sums else self.rep.shape[0]

    @property
    def is_scaled(self) -> bool:
        return self.arrays[0].dtype == "i1"

    @property
    def rep(self) -> ArraySpec:
        return self.arrays[0]

    @property
    def anchor_rep(self) -> ArraySpec:
        return self.arrays[1]

    @property
    def labels(self) -> ArraySpec:
        return self.arrays[2]

    @property
    def scales(self) -> tuple[ArraySpec, ...]:
        """The scales of ``rep`` and ``anchor_rep``; none if these are floats."""
        return self.arrays[len(UPLINK_ARRAYS) :][: len(SCALE_ARRAYS) if self.is_scaled else 0]

    @property
    def row_keys(self) -> ArraySpec | None:
        """The hashes that rows are joined by; None where they are not joined."""
        return self.arrays[-1] if self.arrays[-1].name == ROW_KEYS else None


class Receipt(Message, extra="allow"):
    """The analyst's signature that an uplink is complete and durable."""

    signing_label: ClassVar[str] = "odc/v1/receipt"

    collaboration_id: Identifier
    party: PartyName
    uplink_digest: Digest
    """SHA-256 of the canonical manifest."""
    payload_bytes: Count
    received_at: UnixTime
    ledger_index: Count
    ledger_digest: Digest
    """Digest of the entry that accepts this uplink, so that a change of any earlier entry is detected."""


_DOWNLINKS_WITH_A_MODEL: Final = (["change_of_basis", "model"], ["model"], ["model", TOTAL])


class DownlinkManifest(Message, extra="allow"):
    """What the analyst returns to one institution.

    ``change_of_basis`` (l, l) and ``model``, an ONNX file as bytes; under terms with ``anchor-predictions``
    neither, but ``anchor_predictions`` (a, classes); under sums ``model`` and, where the terms say so,
    ``total``, a vector of u8.
    """

    signing_label: ClassVar[str] = "odc/v1/downlink"

    collaboration_id: Identifier
    terms_digest: Digest
    party: PartyName
    uplink_digest: Digest
    chunk_bytes: ChunkBytes = DEFAULT_CHUNK_BYTES
    arrays: Annotated[tuple[ArraySpec, ...], FailFast()] = Field(min_length=1, max_length=2)
    model_parameters: Count
    """The paper's N, for formula (4)."""
    models: Annotated[tuple[Digest, ...], FailFast()] = Field(default=(), max_length=MAX_GROUPED_PARTIES)
    """Digests of all models of the round, ascending, where groups of parties have models of their own."""

    @model_serializer(mode="wrap")
    def _without_models(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_absent(serialise(self), "models")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.has_anchor_predictions:
            if (
                len(self.anchor_predictions.shape) != 2
                or self.anchor_predictions.dtype != "f4"
                or self.models
            ):
                raise ValueError("anchor_predictions is a matrix of f4, without models")
            return self
        if [spec.name for spec in self.arrays] not in _DOWNLINKS_WITH_A_MODEL:
            raise ValueError(
                "the arrays are change_of_basis and model, model with or without total, or anchor_predictions"
            )
        change, model = self.change_of_basis, self.model
        if self.has_total and (self.total.dtype != "u8" or len(self.total.shape) != 1):
            raise ValueError("total is a vector of u8")
        if self.has_change_of_basis and (len(change.shape) != 2 or change.dtype not in ("f2", "f4", "f8")):
            raise ValueError("change_of_basis is a matrix of floats")
        if len(model.shape) != 1 or model.dtype != "u1":
            raise ValueError("model is a vector of bytes")
        if self.models and (list(self.models) != sorted(set(self.models)) or model.digest not in self.models):
            raise ValueError("models are distinct digests in ascending order, with that of the model")
        return self

    @property
    def released(self) -> Digest | None:
        """What the ledger says of the release: the digest of the model, or of all; None without any."""
        if self.has_anchor_predictions:
            return None
        return models_digest(self.models) if self.models else self.model.digest

    @property
    def has_anchor_predictions(self) -> bool:
        return [spec.name for spec in self.arrays] == ["anchor_predictions"]

    @property
    def anchor_predictions(self) -> ArraySpec:
        return self.arrays[0]

    @property
    def has_change_of_basis(self) -> bool:
        """Whether G_i comes with the model; under sums nothing is aligned."""
        return self.arrays[0].name == "change_of_basis"

    @property
    def change_of_basis(self) -> ArraySpec:
        return self.arrays[0]

    @property
    def model(self) -> ArraySpec:
        return self.arrays[1 if self.has_change_of_basis else 0]

    @property
    def has_total(self) -> bool:
        """Whether the total over all institutions comes with the model of sums."""
        return self.arrays[-1].name == TOTAL

    @property
    def total(self) -> ArraySpec:
        return self.arrays[-1]


class ErasedFile(Message):
    """A file that an institution has erased."""

    name: Name
    size_bytes: Count
    erased_at: UnixTime


class ForgettingStatement(Message):
    """An institution's signed statement, which it keeps, of what it has erased of a round."""

    signing_label: ClassVar[str] = "odc/v1/forgetting"

    collaboration_id: Identifier
    terms_digest: Digest
    party: PartyName
    uplink_digest: Digest | None
    """Digest of the uplink that the analyst acknowledged; None if nothing was sent."""
    erased: Annotated[tuple[ErasedFile, ...], FailFast()] = Field(min_length=1, max_length=1000)


class MemberScore(Message, extra="allow"):
    """How an institution does with the collaboration's model and with its own, on rows it has kept back."""

    signing_label: ClassVar[str] = "odc/v1/member-score"

    collaboration_id: Identifier
    terms_digest: Digest
    party: PartyName
    rows: int = Field(ge=1, le=MAX_ROWS)
    """Number of rows that the scores are of."""
    metric: Literal["roc_auc", "accuracy", "r2", "c_index"]
    """ROC-AUC (mean of one class against the rest), or accuracy where the rows are of one class; R squared
    for numbers, and the concordance index for survival."""
    together: float = Field(le=1)
    alone: float | None = Field(le=1)
    """None if the labels of the institution are all the same, so that it has no model of its own."""
    gain_low: float | None
    gain_high: float | None
    """Ends of the 95 % interval of ``together - alone``."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({value is None for value in (self.alone, self.gain_low, self.gain_high)}) != 1:
            raise ValueError("alone and both ends of the gain are given together, or none of them")
        if self.gain_low is not None and self.gain_high is not None and self.gain_low > self.gain_high:
            raise ValueError("gain_low must be at most gain_high")
        if self.metric != "r2":  # which alone can be as far below 0 as it likes
            if min(self.together, self.alone or 0) < 0:
                raise ValueError("together and alone must be at least 0")
            if any(end is not None and abs(end) > 1 for end in (self.gain_low, self.gain_high)):
                raise ValueError("gain_low and gain_high must lie between -1 and 1")
        return self
