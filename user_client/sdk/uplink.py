"""The one uplink: prepare it (nothing is sent), then send it."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metering.formulas import FORMULA_BITS
from metering.formulas import uplink as uplink_formula
from protocol.arrays import little_endian, quantise, raw_bytes, specify
from protocol.codec import digest
from protocol.errors import DifferentUplinkError, InputError, NotFoundError, NotPermittedError
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import ArraySpec, Dtype, Receipt, UplinkManifest
from protocol.operations import FETCH_RECEIPT
from protocol.terms import Terms
from runtime.files import write_whole
from user_client.custody.home import exclusive
from user_client.custody.inventory import BASIS_FILE, MANIFEST_FILE, PAYLOAD_FILE, PREPARED_FILE, RECEIPT_FILE
from user_client.errors import NotPreparedError
from user_client.privacy.reduction import reduction_risk, threshold_risk
from user_client.sdk.anchor import open_anchor
from user_client.sdk.forget import forget_if_demanded, holds_uplink
from user_client.sdk.privacy import PrivacyOptions, Treated, non_readily_identifiable, treat
from user_client.sdk.session import Session
from user_client.sdk.terms import stored_terms
from user_client.tables import encode_labels, encode_rows, table_from
from user_client.transport.upload import Progress, send_uplink

AnyArray = NDArray[Any]


@dataclass(frozen=True)
class Prepared:
    """What would leave, and the risk of it. It stays here: no analyst may know all of this."""

    rows: int
    table_rows: int
    """Rows of the table; those that do not leave were left out by ``drop_below``."""
    features: int
    latent_dim: int
    payload_bytes: int
    formula_bytes: float
    arrays: list[dict[str, Any]]
    hidden_share: dict[str, float] | None
    """Quantiles of what the projection hides of a row, should analyst and a member collude."""
    collusion_error: dict[str, float] | None
    """With noise: quantiles of ``||x - x^|| / ||x||``, x^ being the row as the two could rebuild it."""
    threshold: dict[str, float] | None
    singular_values: list[float] = field(repr=False)
    """Of the rows the basis was drawn from, falling."""
    noise_sigma: float | None
    privacy: dict[str, Any]
    """What the manifest says was done to the rows."""
    options: dict[str, Any]
    """What was asked for, to see with ``source`` whether it is the same again."""
    source: str
    """Digest of the table file."""


def prepare(
    session: Session,
    collaboration_id: str,
    data: Any,
    options: PrivacyOptions = PrivacyOptions(),  # noqa: B008  # frozen
    *,
    threshold: float | None = None,
) -> Prepared:
    """Encode a table, treat its rows, draw the secret basis and write the uplink to the state directory.

    Preparing the same file with the same options again keeps what is there, so that a broken upload can
    go on; another table or other options draw everything anew, until the analyst has accepted an uplink.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        A table without rows, with the right columns, makes this institution a consumer.
    options : PrivacyOptions
        What to do to the rows before they leave.
    threshold : float, optional
        Say how many rows keep less than this share hidden, and with which latent dimensions none would.

    Raises
    ------
    TableError
        Which column and row does not fit the terms.
    InputError
        If the options leave no row.
    DifferentUplinkError
        If an uplink from another table, or with other options, was accepted already.
    BusyError
        If another process prepares or sends in this directory: it would draw another basis.
    """
    if threshold is not None and not 0 < threshold <= 1:
        raise InputError(f"the threshold is a share above 0 and at most 1, got {threshold:g}")
    with exclusive(session.home.collaboration(collaboration_id)):
        return _prepare(session, collaboration_id, data, options, threshold)


def _prepare(
    session: Session, collaboration_id: str, data: Any, options: PrivacyOptions, threshold: float | None
) -> Prepared:
    terms = stored_terms(session, collaboration_id)
    directory = session.home.collaboration(collaboration_id)
    source = _source_digest(data)
    earlier = prepared_before(session, collaboration_id)
    if earlier is not None and not _is_the_same(earlier, source, options):
        earlier = None
    if (
        earlier is not None
        and _says_enough(earlier, threshold)
        and _payload_is_whole(session, collaboration_id)
    ):
        return earlier
    if _was_received(session, collaboration_id):
        if earlier is None:
            raise DifferentUplinkError(session.membership.party)
        return earlier
    table = table_from(data)
    rows, labels = encode_rows(table, terms.table_schema), encode_labels(table, terms.table_schema)
    anchor, commitment = open_anchor(session, collaboration_id)
    applied = non_readily_identifiable(options) if terms.returns_anchor_predictions else options
    treated = treat(rows, labels, terms.latent_dim, applied)
    basis = treated.secret_basis
    arrays = _on_the_wire(terms, treated.rows @ basis, anchor @ basis, treated.labels)
    manifest = UplinkManifest(
        collaboration_id=collaboration_id,
        terms_digest=digest(terms),
        party=session.membership.party,
        anchor_commitment=commitment,
        arrays=tuple(spec for spec, _ in arrays),
        privacy=applied.record(),
    )
    found = {**_risk(treated, options, threshold), "table_rows": len(rows), "source": source}
    prepared = _summary(terms, manifest, found)
    # the description comes last: without it, what lies here is taken for unfinished
    for name in (PREPARED_FILE, MANIFEST_FILE):
        (directory / name).unlink(missing_ok=True)
    write_whole(directory / PAYLOAD_FILE, *(raw_bytes(array) for _, array in arrays))
    session.home.write_secret(directory / BASIS_FILE, _npy(basis))
    write_whole(directory / MANIFEST_FILE, session.sign(manifest))
    session.home.write_secret(directory / PREPARED_FILE, json.dumps(asdict(prepared), indent=2).encode())
    return prepared


def _on_the_wire(
    terms: Terms, rep: AnyArray, anchor_rep: AnyArray, labels: AnyArray
) -> list[tuple[ArraySpec, AnyArray]]:
    """Return the arrays in the number types of the terms, each with its line of the manifest."""
    label_dtype = terms.table_schema.label_column.wire_dtype
    scales: list[tuple[str, AnyArray, Dtype]] = []
    if terms.rep_dtype == "i1":
        rep, rep_scale = quantise(rep)
        anchor_rep, anchor_rep_scale = quantise(anchor_rep)
        scales = [("rep_scale", rep_scale, "f4"), ("anchor_rep_scale", anchor_rep_scale, "f4")]
    named: list[tuple[str, AnyArray, Dtype]] = [
        ("rep", rep, terms.rep_dtype),
        ("anchor_rep", anchor_rep, terms.rep_dtype),
        ("labels", labels, label_dtype),
        *scales,
    ]
    converted = [(name, little_endian(array, dtype), dtype) for name, array, dtype in named]
    return [(specify(name, array, dtype, DEFAULT_CHUNK_BYTES), array) for name, array, dtype in converted]


def contribute(
    session: Session, collaboration_id: str, *, progress: Progress = lambda _done, _all: None
) -> Receipt:
    """Send what was prepared, and keep the analyst's receipt. Calling again goes on, or shows it.

    Raises
    ------
    NotPreparedError
        If nothing is prepared, or it was changed or cut since.
    BusyError
        If another process prepares or sends in this directory.
    """
    with exclusive(session.home.collaboration(collaboration_id)):
        receipt = _contribute(session, collaboration_id, progress)
        forget_if_demanded(session, collaboration_id)
    return receipt


def _contribute(session: Session, collaboration_id: str, progress: Progress) -> Receipt:
    manifest, signed = session.stored(collaboration_id, UplinkManifest, MANIFEST_FILE, "odc prepare TABLE")
    directory = session.home.collaboration(collaboration_id)
    path = directory / RECEIPT_FILE
    if not path.exists():
        if not _payload_is_whole(session, collaboration_id):
            error = NotPreparedError("what was prepared is not whole any more")
            error.hint = "run `odc prepare TABLE` again"
            raise error
        data = send_uplink(
            session.connection,
            collaboration_id,
            signed,
            manifest,
            directory / PAYLOAD_FILE,
            progress=progress,
        )
        _check_receipt(session.verify_from_analyst(Receipt, data).message, manifest)
        write_whole(path, data)
    receipt, _ = session.stored(collaboration_id, Receipt, RECEIPT_FILE, "odc contribute")
    return receipt


def _payload_is_whole(session: Session, collaboration_id: str) -> bool:
    """Whether what lies on the disk is what its manifest says."""
    directory = session.home.collaboration(collaboration_id)
    payload = directory / PAYLOAD_FILE
    if not (payload.exists() and (directory / MANIFEST_FILE).exists()):
        return False
    manifest, _ = session.stored(collaboration_id, UplinkManifest, MANIFEST_FILE, "odc prepare TABLE")
    with payload.open("rb") as file:
        return holds_uplink(file, manifest)


def _was_received(session: Session, collaboration_id: str) -> bool:
    """Whether the analyst has our uplink, also when its receipt did not reach us.

    The basis of an uplink that was received must not be drawn again: what comes back fits no other.
    """
    directory = session.home.collaboration(collaboration_id)
    path = directory / RECEIPT_FILE
    if path.exists():
        return True
    if not (directory / MANIFEST_FILE).exists():
        return False
    manifest, _ = session.stored(collaboration_id, UplinkManifest, MANIFEST_FILE, "odc prepare TABLE")
    try:
        data = session.connection.ask(FETCH_RECEIPT, collaboration_id=collaboration_id).content
    except NotFoundError:
        return False
    _check_receipt(session.verify_from_analyst(Receipt, data).message, manifest)
    write_whole(path, data)
    return True


def _check_receipt(receipt: Receipt, manifest: UplinkManifest) -> None:
    if (receipt.collaboration_id, receipt.party) != (manifest.collaboration_id, manifest.party):
        raise NotPermittedError("the receipt is for another uplink")
    if receipt.uplink_digest != digest(manifest):
        raise NotPermittedError("the receipt is for other bytes than we sent")


def _risk(treated: Treated, options: PrivacyOptions, threshold: float | None) -> dict[str, Any]:
    """Measure the rows that leave, as they leave; nothing of it is sent."""
    rows, basis = treated.rows, treated.secret_basis
    risk = reduction_risk(rows, basis)
    error = None if options.sigma is None else reduction_risk(treated.original, basis, seen=rows)
    below = None if threshold is None else threshold_risk(rows, basis, treated.axes, threshold)
    return {
        "hidden_share": asdict(risk) if risk else None,
        "collusion_error": asdict(error) if error else None,
        "threshold": asdict(below) if below else None,
        "singular_values": treated.singular_values.tolist(),
        "noise_sigma": options.sigma,
        "options": asdict(options),
    }


def _summary(terms: Terms, manifest: UplinkManifest, found: dict[str, Any]) -> Prepared:
    rows = manifest.rep.shape[0]
    formula = uplink_formula(
        rows=rows,
        anchor_rows=terms.anchor.rows,
        latent_dim=terms.latent_dim,
        bits=FORMULA_BITS,
    )
    return Prepared(
        rows=rows,
        features=terms.table_schema.width,
        latent_dim=terms.latent_dim,
        payload_bytes=sum(spec.payload_bytes for spec in manifest.arrays),
        formula_bytes=formula.total_bytes,
        arrays=[
            {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape), "bytes": spec.payload_bytes}
            for spec in manifest.arrays
        ],
        privacy=manifest.privacy.model_dump(),
        **found,
    )


def prepared_before(session: Session, collaboration_id: str) -> Prepared | None:
    """Return what was prepared last, or None if nothing was."""
    path = session.home.collaboration(collaboration_id) / PREPARED_FILE
    try:
        return Prepared(**json.loads(session.home.read_secret(path))) if path.exists() else None
    except (ValueError, TypeError):  # of another version: prepared anew
        return None


def stored_basis(session: Session, collaboration_id: str) -> NDArray[np.float64] | None:
    """Return the secret basis (m, l), or None if it is not on this machine any more."""
    path = session.home.collaboration(collaboration_id) / BASIS_FILE
    if not path.exists():
        return None
    return np.asarray(np.load(io.BytesIO(session.home.read_secret(path)), allow_pickle=False))


def _is_the_same(earlier: Prepared, source: str, options: PrivacyOptions) -> bool:
    return bool(source) and (earlier.source, earlier.options) == (source, asdict(options))


def _says_enough(earlier: Prepared, threshold: float | None) -> bool:
    """Whether the threshold asked for, if any, is the one measured: the noise is gone, the rows with it."""
    if threshold is None or earlier.rows == 0:
        return True
    return earlier.threshold is not None and earlier.threshold["threshold"] == threshold


def _source_digest(data: Any) -> str:
    """Digest of the file, or empty for a table in memory, which is never taken for the same again."""
    if not isinstance(data, str | Path):
        return ""
    path = Path(data)
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _npy(matrix: AnyArray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, matrix, allow_pickle=False)
    return buffer.getvalue()
