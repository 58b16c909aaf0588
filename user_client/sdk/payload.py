"""An uplink of rows: from an encoded table to the arrays that leave, and what that risks.

The arrays are in the number types of the terms, and are written to a file block by block. `odc prepare`
writes them to the state directory; a simulation keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from metering.formulas import FORMULA_BITS
from metering.formulas import uplink as uplink_formula
from protocol.arrays import (
    dequantise,
    digest_in_chunks,
    little_endian,
    quantise,
    quantise_by,
    raw_bytes,
    scale_of,
)
from protocol.chunk_checks import require_short
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import LABELS, ArraySpec, Dtype
from protocol.row_bounds import RowBounds
from protocol.table_schema import Schema
from protocol.terms import Terms
from runtime.memory import give_back
from user_client.custody.scratch import Scratch
from user_client.privacy.information import Information
from user_client.privacy.reduction import (
    ReductionRisk,
    ThresholdRisk,
    reduction_risk,
    threshold_risk,
)
from user_client.rows import Matrix64, Rows
from user_client.sdk.desk import AttackLevel, Exposed, attack
from user_client.sdk.hold_out import HoldOut, described, fit_alone
from user_client.sdk.own_map import own_map_of
from user_client.sdk.prepared import Prepared, PreparedArray
from user_client.sdk.privacy import (
    SECRET,
    Draws,
    PrivacyOptions,
    Sample,
    Treated,
    bits_of,
    dithered,
    isolated_by,
    non_readily_identifiable,
    own_dim,
    treat,
)
from user_client.secret.local_model import LocalModel
from user_client.tables import EncodedTable

REP: Final = "rep"
LEARNED_BACK_ROWS: Final = 2000
"""About so many rows are rebuilt, where a map is not linear."""
AnyArray = NDArray[Any]


@dataclass(frozen=True, repr=False)
class Payload:
    """What leaves, before it is written.

    Attributes
    ----------
    rep : (n, l) Rows
        X~_i, before it is rounded.
    rep_dtype : {"i1", "f2", "f4", "f8"}
    rep_scale : (l,) ndarray of float32, optional
        Of 8-bit integers.
    others : tuple of (str, ndarray, str)
        The name of each other array, the array as it is on the wire, and its number type.
    """

    rep: Rows
    rep_dtype: Dtype
    rep_scale: NDArray[np.float32] | None
    others: tuple[tuple[str, AnyArray, Dtype], ...]

    @property
    def arrays(self) -> tuple[PreparedArray, ...]:
        """Name, number type and size of each array, in their order."""
        rep_bytes = self.rep.shape[0] * self.rep.shape[1] * np.dtype(self.rep_dtype).itemsize
        return (
            PreparedArray(REP, self.rep_dtype, self.rep.shape, rep_bytes),
            *(PreparedArray(name, dtype, array.shape, array.nbytes) for name, array, dtype in self.others),
        )

    def decoded(self, rep: Matrix64) -> Matrix64:
        """Return some rows of X~_i, (k, l), as the analyst reads them."""
        values = self._rounded(rep)
        scaled = values if self.rep_scale is None else dequantise(values, self.rep_scale)
        return scaled.astype(np.float64)

    def write(self, file: BinaryIO, bounds: RowBounds) -> Iterator[ArraySpec]:
        """Write every array, and yield its line of the manifest.

        Raises `RowTooLongError` for a row that the analyst would refuse.
        """
        blocks = self.rep.mapped(self._rounded)
        yield _written(file, REP, self.rep_dtype, self.rep.shape, blocks, bounds)
        for name, array, dtype in self.others:
            yield _written(file, name, dtype, array.shape, [array], bounds)

    def _rounded(self, block: Matrix64) -> AnyArray:
        values = block if self.rep_scale is None else quantise_by(self.rep_scale, block)
        return little_endian(values, self.rep_dtype)


def payload_of(terms: Terms, treated: Treated, anchor_rep: Matrix64) -> Payload:
    """Return the arrays of an uplink under some terms; ``anchor_rep`` is A_i, (a, l)."""
    rep_scale, anchor_values = None, anchor_rep
    scales: list[tuple[str, AnyArray, Dtype]] = []
    if terms.rep_dtype == "i1":
        rep_scale = scale_of(treated.projection.largest)
        anchor_values, anchor_scale = quantise(anchor_rep)  # type: ignore[assignment]  # other numbers
        scales = [("rep_scale", rep_scale, "f4"), ("anchor_rep_scale", anchor_scale, "f4")]
    named: list[tuple[str, AnyArray, Dtype]] = [
        ("anchor_rep", anchor_values, terms.rep_dtype),
        (LABELS, treated.labels, terms.table_schema.label_column.wire_dtype),
        *scales,
    ]
    others = tuple((name, little_endian(array, dtype), dtype) for name, array, dtype in named)
    return Payload(treated.rep, terms.rep_dtype, rep_scale, others)


def _written(
    file: BinaryIO,
    name: str,
    dtype: Dtype,
    shape: tuple[int, ...],
    blocks: Iterable[AnyArray],
    bounds: RowBounds,
) -> ArraySpec:
    """Write one array and return its line of the manifest."""
    largest = bounds.largest.get(name)

    def pieces() -> Iterator[memoryview]:
        first = 0
        for block in blocks:
            if largest is not None and len(block):
                require_short(block.reshape(len(block), -1), largest, bounds.party, name, first)
                first += len(block)
            data = raw_bytes(block)
            file.write(data)
            yield data

    digest = digest_in_chunks(pieces(), DEFAULT_CHUNK_BYTES)
    return ArraySpec(name=name, dtype=dtype, shape=shape, digest=digest)


@dataclass(frozen=True, repr=False)
class Made:
    """An uplink before it is written. All of it is secret.

    Attributes
    ----------
    applied : PrivacyOptions
        What was done to the rows: what was asked for, and what the terms ask for.
    leaves : (n,) ndarray of bool
        Which rows of the table leave.
    alone : LocalModel, optional
        A model of the rows that leave, without noise; None if they cannot be learnt from.
    exposed : Exposed, optional
        The uplink as its attackers see it; None if no row leaves.
    """

    treated: Treated
    payload: Payload
    applied: PrivacyOptions
    leaves: NDArray[np.bool_]
    alone: LocalModel | None
    prepared: Prepared
    exposed: Exposed | None


def make_uplink(
    terms: Terms,
    table: EncodedTable,
    kept: HoldOut,
    anchor: Matrix64,
    options: PrivacyOptions,
    scratch: Scratch,
    *,
    party: str,
    threshold: float | None = None,
    level: AttackLevel = "none",
    is_late: bool = False,
    fits_alone: bool = True,
    draws: Draws = SECRET,
) -> Made:
    """Treat the rows that are not kept back, project them and the anchor, and measure what that risks.

    Parameters
    ----------
    terms : Terms
        Of rows.
    anchor : (a, m) ndarray of float64
    options : PrivacyOptions
        As they were asked for.
    party : str
        Whose rows these are. The table and the basis have the features that the terms say it has; on the
        others its basis is zero, so that the anchor's columns of these are left out.
    threshold : float, optional
        As for `reduction.threshold_risk`.
    level : {"none", "quick", "thorough"}
        How long our own rows are attacked.
    is_late : bool
        Whether no row leaves, because the round is over.
    fits_alone : bool
        Whether a model of these rows alone is fitted, to compare with.
    draws : Draws
        Where everything secret comes from.

    Raises
    ------
    InputError
        If an option is below what the terms ask for, or no row is left.
    """
    leaves, schema = kept.leaves(len(table.rows)), terms.schema_of(party)
    applied = non_readily_identifiable(options) if terms.returns_anchor_predictions else options
    applied = dithered(applied, terms.dither)
    own = own_dim(options, terms, party)
    rows, own_anchor = table.rows.where(leaves), anchor[:, terms.features_of(party)]
    mapped = own_map_of(options.own_map, terms, rows, own_anchor, draws.stream("own-map"), numbers=own)
    treated = treat(rows, table.labels[leaves], own, applied, scratch, table.task, draws, mapped)
    may_fit = fits_alone and table.task == terms.task
    alone = fit_alone(terms, treated.original, treated.labels) if may_fit else None
    treated = treated.without_rows() if is_late else treated
    basis = treated.secret_basis
    anchor_rep = own_anchor @ basis if mapped is None else mapped.anchor_rep(basis)
    payload = payload_of(terms, treated, anchor_rep)
    sample = treated.sample()
    prepared = replace(
        _summary(terms, schema, payload, treated, sample, options, applied, threshold),
        table_rows=len(table.rows),
        held_out_rows=len(kept),
        most_latent_dim=terms.latent_dims_of(party)[-1] if terms.least_latent_dim else None,
        alone=described(terms, alone),
    )
    if mapped is not None:
        prepared = replace(prepared, collusion_error=_learned_back(own_anchor, anchor_rep, sample))
    exposed = None
    if len(treated.rows):
        give_back()  # the attacks need more memory than any step before
        exposed = _exposed(schema, table, treated, payload.decoded(sample.rep), sample, applied)
        prepared = replace(prepared, attacks=attack(exposed, level))
    leaves[leaves] = treated.leaves  # some may have been left out, and of a late consumer no row leaves
    return Made(treated, payload, applied, leaves, alone, prepared, exposed)


def _summary(
    terms: Terms,
    schema: Schema,
    payload: Payload,
    treated: Treated,
    sample: Sample,
    asked: PrivacyOptions,
    applied: PrivacyOptions,
    threshold: float | None,
) -> Prepared:
    """Measure the rows that leave, exactly as they leave, and describe the uplink; none of it is sent."""
    rows, basis = treated.rows, treated.secret_basis
    hidden, collusion_error = _reduction_risks(treated, applied)
    formula = uplink_formula(
        rows=len(rows), anchor_rows=terms.anchor.rows, latent_dim=basis.shape[1], bits=FORMULA_BITS
    )
    return Prepared(
        rows=len(rows),
        table_rows=len(rows),
        features=schema.width,
        latent_dim=basis.shape[1],
        payload_bytes=sum(array.payload_bytes for array in payload.arrays),
        formula_bytes=formula.total_bytes,
        arrays=payload.arrays,
        hidden_share=hidden,
        collusion_error=collusion_error,
        threshold=_threshold(treated, threshold),
        signal=treated.signal,
        information=_bits(terms, schema, treated, sample, applied),
        isolated=None if treated.own_map else isolated_by(schema, sample.original),
        least_signal=terms.least_signal,
        singular_values=treated.singular_values.tolist(),
        noise_sigma=applied.sigma,
        privacy=applied.record(),
        options=asked,
        source="",  # the rows do not tell
    )


def _reduction_risks(
    treated: Treated, applied: PrivacyOptions
) -> tuple[ReductionRisk | None, ReductionRisk | None]:
    """Return how much of each row the projection drops, and with noise how far a rebuilt row is off.

    Both come from the basis of a linear map: with another there is neither.
    """
    found = treated.projection
    if treated.own_map is not None or (applied.sigma is None and applied.dither is None):
        return found.hidden, None
    if treated.rows is treated.original:
        return found.hidden, found.hidden_with_dither
    return found.hidden, reduction_risk(treated.original, treated.secret_basis, rep=treated.rep)


def _learned_back(anchor: Matrix64, anchor_rep: Matrix64, sample: Sample) -> ReductionRisk | None:
    """Return how far rows are off that the analyst and a member rebuild by what the anchor's rows teach."""
    from user_client.privacy.learned_inverse import learned_inverse_error

    some = slice(None, None, max(1, len(sample.rep) // LEARNED_BACK_ROWS))
    return learned_inverse_error(anchor, anchor_rep, sample.original[some], sample.rep[some])


def _threshold(treated: Treated, threshold: float | None) -> ThresholdRisk | None:
    if threshold is None or treated.own_map is not None:
        return None
    return threshold_risk(treated.rows, treated.secret_basis, treated.axes, threshold)


def _bits(
    terms: Terms, schema: Schema, treated: Treated, sample: Sample, applied: PrivacyOptions
) -> Information | None:
    """Return how many bits of a row leave; None with a map, whose reach no covariance tells."""
    if treated.own_map is not None:
        return None
    return bits_of(
        schema,
        sample.original,
        sample.projected,
        number_type=terms.rep_dtype,
        dither=applied.dither or 0,
    )


def _exposed(
    schema: Schema,
    table: EncodedTable,
    treated: Treated,
    rep: NDArray[np.float64],
    sample: Sample,
    options: PrivacyOptions,
) -> Exposed:
    """Return the uplink as its attackers see it, with the rows in it; of a large one, a part."""
    return Exposed(
        table.some,
        schema,
        sample.original,
        rep,
        None if treated.own_map is not None else treated.secret_basis,
        sample.labels,
        dither=options.dither or 0,
    )
