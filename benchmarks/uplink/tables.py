"""Uplinks as members would send them: encoded, projected and rounded by the product's own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data import Labels, Matrix
from benchmarks.defaults.tables import LABEL, Source, bundled, for_all_members, real
from protocol.arrays import dequantise, quantise
from protocol.table_schema import Schema
from user_client.custody.keystream import KeyStream
from user_client.privacy.noise import add_dither
from user_client.sdk import DITHER, draft_terms
from user_client.sdk.privacy import NRI_PERTURBATION, draw_basis
from user_client.secret.basis import draw_secret_basis, perturbed, principal_axes
from user_client.secret.expansion import ByteSource, expand_anchor, gaussian, uniform
from user_client.secret.signal import score_of
from user_client.secret.targets import targets_of
from user_client.tables import draft_schema, encode_labels, encode_rows

Encoding = Literal["drafted", "old"]
"""Terms as `odc terms draft` proposes them, or as before: columns from their least to their largest number,
one 0/1 feature for each level, uncentred, and a basis of principal axes alone."""
TABLES: Final = ("heart", "stroke", "pima", "digits", "tcga")


@dataclass(frozen=True)
class Defence:
    """What the members do beyond the terms.

    Attributes
    ----------
    dither : float
        Of fresh noise on X~_i before it is rounded, as in the terms.
    nri : bool
        The basis is perturbed and the rows are permuted, as under NRI-DC.
    """

    dither: float = 0.0
    nri: bool = False


@dataclass(frozen=True, repr=False)
class Member:
    """One institution's rows, in the order in which they leave, and what leaves of them.

    Attributes
    ----------
    table : pyarrow.Table
        The n rows before encoding, in the order of ``rows``.
    rows : (n, m) ndarray of float64
        X_i.
    labels : (n,) ndarray of int64
    basis : (m, l) ndarray of float64
        F_i; the analyst and another member together know it from A_i.
    rep : (n, l) ndarray of float64
        X~_i as the analyst decodes it.
    anchor_rep : (m, l) ndarray of float64
        A_i as the analyst decodes it.
    """

    table: pa.Table
    rows: Matrix
    labels: Labels
    basis: Matrix
    rep: Matrix
    anchor_rep: Matrix


@dataclass(frozen=True, repr=False)
class Cohort:
    """The members of one collaboration."""

    name: str
    schema: Schema
    latent_dim: int
    rep_dtype: str
    anchor: Matrix
    members: tuple[Member, ...]


def sources(folder: Path | None) -> Mapping[str, Callable[[], Source]]:
    """Return how to load each table; without ``folder``, those that need no download."""
    return {**bundled(), **(real(folder) if folder else {})}


def cohort(
    source: Source,
    encoding: Encoding = "drafted",
    *,
    parties: int = 1,
    rows: int | None = None,
    sites: bool = False,
    latent_dim: int | None = None,
    rep_dtype: str = "f4",
    defence: Defence | None = None,
    seed: int = 0,
) -> Cohort:
    """Return what the members of a collaboration hold and send.

    Parameters
    ----------
    source : Source
        From `sources`.
    encoding : {"drafted", "old"}
        The first member's table decides about the schema.
    parties : int
        The largest so many, if ``sites``; otherwise rows are dealt at random.
    rows : int, optional
        At most so many for each member.
    sites : bool
        Divide the rows by the institutions they came from.
    latent_dim : int, optional
        Unless it is given, that of the draft. Old terms have no rule of their own and take the same one.
    rep_dtype : {"f2", "f4", "f8", "i1"}
    seed : int
        Of everything random: division, bases, anchor, noise.

    Raises
    ------
    ValueError
        If the table does not say which site a row came from.
    """
    rng = np.random.default_rng([seed, parties])
    names = sorted({str(name) for name in source.table[LABEL].to_pylist()})
    parts = [source.table.take(pa.array(part)) for part in _divide(source, parties, rows, sites, rng)]
    schema, drafted_dim = _schema(parts[0], source, encoding, names)
    latent_dim = min(latent_dim or drafted_dim, schema.width)
    stream = KeyStream(np.random.default_rng([seed, 1]).bytes(32), "odc/benchmarks/uplink").read
    anchor = expand_anchor("haar", stream, rows=schema.width, features=schema.width)
    members = tuple(
        _member(part, schema, latent_dim, anchor, encoding, rep_dtype, defence or Defence(), stream)
        for part in parts
    )
    return Cohort(source.name, schema, latent_dim, rep_dtype, anchor, members)


def default_cohort(table: str, folder: Path | None, *, parties: int, rows: int, seed: int) -> Cohort:
    """Return the members of a collaboration under drafted terms, with rows dealt at random."""
    return cohort(
        sources(folder)[table](),
        parties=parties,
        rows=rows,
        rep_dtype="i1",
        defence=Defence(DITHER),
        seed=seed,
    )


def decoded(matrix: Matrix, rep_dtype: str) -> Matrix:
    """Return the numbers the analyst has after a matrix was sent in a number type, as float64."""
    if rep_dtype == "i1":
        return dequantise(*quantise(matrix)).astype(np.float64)
    return matrix.astype(rep_dtype).astype(np.float64)


def _divide(
    source: Source, parties: int, rows: int | None, sites: bool, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    if not sites:
        return [part[:rows] for part in np.array_split(rng.permutation(source.table.num_rows), parties)]
    if source.sites is None:
        raise ValueError(f"{source.name} does not say which site a row came from")
    found = [rng.permutation(np.flatnonzero(source.sites == site)) for site in np.unique(source.sites)]
    return [part[:rows] for part in sorted(found, key=lambda part: -len(part))[:parties]]


def _schema(first: pa.Table, source: Source, encoding: Encoding, classes: list[str]) -> tuple[Schema, int]:
    terms = draft_terms(first, label=LABEL, parties=["a"], title="benchmark", classes=classes)
    content: dict[str, Any] = terms.content["table_schema"]
    if encoding == "old":
        content = draft_schema(first, LABEL, encoding="plain", classes=classes).content
    schema = Schema.model_validate(content, strict=False)
    return for_all_members(schema, source), terms.latent_dim


def _member(
    table: pa.Table,
    schema: Schema,
    latent_dim: int,
    anchor: Matrix,
    encoding: Encoding,
    rep_dtype: str,
    defence: Defence,
    stream: ByteSource,
) -> Member:
    rows, labels = encode_rows(table, schema), encode_labels(table, schema).astype(np.int64)
    seen = perturbed(rows, NRI_PERTURBATION, stream) if defence.nri else rows
    if encoding == "old":
        basis = draw_secret_basis(seen, latent_dim, stream)
    else:
        basis = draw_basis(
            seen, score_of(seen, targets_of(labels)), latent_dim, stream, axes=principal_axes(seen)[1]
        )
    if defence.nri:
        order = np.argsort(uniform(stream, len(rows)))
        table, rows, labels = table.take(pa.array(order)), rows[order], labels[order]
    rep = decoded(add_dither(rows @ basis, defence.dither, partial(gaussian, stream)), rep_dtype)
    return Member(table, rows, labels, basis, rep, decoded(anchor @ basis, rep_dtype))
