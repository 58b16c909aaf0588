"""The work of a round, counted in closed form in c, n, m, l and a; `services.predicting` makes seconds of it.

A phase is a sum of terms. Each grows by a law of its own, and is of one kind of work. A multiplication and an
addition are two flops; products of a matrix with itself count in full, though a BLAS computes half of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from analyst_server.services.planning import Scenario
from protocol.anchor_terms import ANCHORS
from protocol.messages import DTYPE_BYTES
from protocol.model_terms import AveragedTerms, LogisticTerms

Model = AveragedTerms | LogisticTerms
"""The models whose training has a law."""
Kind = Literal["interpreter", "product", "hash", "copy"]
"""What a term spends its time with: the probe of the same name says how fast a machine does that."""
MIB: Final = 2**20
SWEEPS: Final = 3
"""Of `isotropic` where spans differ; none where all parties have one span."""
REFERENCES: Final = 8
"""Parties that every party's span is compared with."""
FACTOR_FLOPS: Final = 175
"""Of one party, divided by l^3: four polar factors of forty each, and decompositions for diagnostics."""
BATCH_ROWS: Final = 200
OWN_MODEL_ROWS: Final = 50_000
"""Of more rows an institution fits its own model, to compare with, on so many."""
MEASURED_ROWS, MEASURED_BYTES = 20_000, 64 * MIB
"""Of more rows an institution measures what they risk on so many."""
TRAINING_BYTES: Final = 96 * MIB
"""Of more rows, the analyst trains on a part."""


@dataclass(frozen=True)
class Probes:
    """How fast one core is at each kind of work."""

    product: float
    """Flops a second of a product of two matrices of doubles."""
    hash: float
    """Bytes a second of SHA-256."""
    copy: float
    """Bytes a second of adding two arrays that are larger than a cache."""
    interpreter: float
    """Calls of a function of Python a second."""


@dataclass(frozen=True)
class Term:
    """A part of a phase: how many units of what there are, and what kind of work that is."""

    name: str
    kind: Kind
    count: float


@dataclass(frozen=True)
class Size:
    """The symbols that work grows with.

    Attributes
    ----------
    parties, rows, features, latent_dim, anchor_rows : int
        c, n of each party, m, l and a.
    number_bytes : int
        Of a number on the wire, s.
    classes : int
    anchor_is_isotropic : bool
        Then orthonormality is checked once more.
    label_bytes : int
        Of the label of a row.
    """

    parties: int
    rows: int
    features: int
    latent_dim: int
    anchor_rows: int
    number_bytes: int = 1
    classes: int = 2
    anchor_is_isotropic: bool = True
    label_bytes: int = 1

    @classmethod
    def of(cls, scenario: Scenario) -> Size:
        """Return the size of a planned round."""
        return cls(
            scenario.parties,
            scenario.rows,
            scenario.features,
            scenario.latent_dim,
            scenario.our_anchor_rows,
            DTYPE_BYTES[scenario.rep_dtype],
            scenario.classes,
            ANCHORS[scenario.anchor_kind].is_isotropic,
            scenario.bytes_of_labels // max(scenario.rows, 1),
        )

    @property
    def uplink_bytes(self) -> int:
        """Return the bytes of the arrays of one uplink."""
        rows = (self.rows + self.anchor_rows) * self.latent_dim * self.number_bytes
        return rows + self.rows * self.label_bytes

    @property
    def training_rows(self) -> int:
        """Return how many rows train: all, or as many as there is memory for."""
        return min(self.parties * self.rows, TRAINING_BYTES // (4 * self.latent_dim))

    @property
    def outputs(self) -> int:
        """Return the numbers at the end of the analyst's network; an institution's has one for each class."""
        return 1 if self.classes == 2 else self.classes


def prepare_products(size: Size) -> float:
    """Return the flops of an institution's products: ``2 n m (m + l + k)``, and those of rows measured.

    ``X.T @ X``; ``X.T @ Y`` of k classes; ``X F``. What rows risk is measured on s of them, with
    ``2 s (m + l)^2`` flops.
    """
    n, m, latent_dim = size.rows, size.features, size.latent_dim
    of_rows = 2.0 * n * m * (m + latent_dim + size.classes)
    return of_rows + 2.0 * _measured_rows(size) * (m + latent_dim) ** 2


def align_products(size: Size) -> float:
    """Return the flops of all products of (a, l) matrices: ``(24 + 2 R) c a l^2``, and 2 more under Haar.

    The sums of `alignment.suspicion` (``2 (R + 1)``), `alignment.gopp.descend` (2, and 4 each sweep) and
    `alignment.diagnostics` (8). R is 0 where no span is judged.
    """
    each = 2 * (_references(size) + 1) + 2 + 4 * SWEEPS + 8 + 2 * size.anchor_is_isotropic
    return float(each) * size.parties * size.anchor_rows * size.latent_dim**2


def align_factors(size: Size) -> float:
    """Return the flops of all factorisations of order l, about."""
    return (FACTOR_FLOPS + 2.0 * _references(size)) * size.parties * size.latent_dim**3


def network_products(rows: int, inputs: int, outputs: int, model: AveragedTerms) -> float:
    """Return the flops of a network's epochs: ``E N h (4 l + 6 k)``, forwards, and backwards from h on."""
    return float(model.epochs) * rows * model.hidden_units * (4 * inputs + 6 * outputs)


def train_products(size: Size, model: AveragedTerms) -> float:
    """Return the flops of the products of the analyst's network."""
    return network_products(size.training_rows, size.latent_dim, size.outputs, model)


def prepare_terms(size: Size, model: Model) -> list[Term]:
    """Return the work of `odc prepare --no-attacks` with a table as CSV."""
    n, m = size.rows, size.features
    own = min(n, OWN_MODEL_ROWS)
    found = [
        Term("start", "interpreter", 1),
        Term("rows", "interpreter", n),
        Term("fields", "copy", float(n) * m),
        Term("products", "product", prepare_products(size)),
        Term("own linear model", "copy", float(own) * m),
    ]
    if isinstance(model, AveragedTerms):
        found += _network_terms(own, m, size.classes, model)
    return found


def send_terms(size: Size) -> list[Term]:
    """Return the work of `odc contribute` once a table is prepared."""
    return [Term("start", "interpreter", 1), Term("bytes", "hash", size.uplink_bytes)]


def take_terms(size: Size) -> list[Term]:
    """Return the work of the analyst's server for one uplink."""
    return [Term("uplink", "interpreter", 1), Term("bytes", "hash", size.uplink_bytes)]


def align_terms(size: Size) -> list[Term]:
    """Return the work of `compute.sequence.align_parties` by `isotropic`."""
    return [
        Term("start", "interpreter", 1),
        Term("parties", "interpreter", size.parties),
        Term("numbers", "copy", float(size.parties) * size.anchor_rows * size.latent_dim),
        Term("squares", "copy", float(size.parties) * size.latent_dim**2),
        Term("products", "product", align_products(size)),
        Term("factors", "product", align_factors(size)),
        Term("bytes", "hash", float(size.parties) * size.uplink_bytes),
    ]


def train_terms(size: Size, model: Model) -> list[Term]:
    """Return the work of `compute.sequence.train_model`."""
    rows = size.training_rows
    found = [
        Term("start", "interpreter", 1),
        Term("parties", "interpreter", size.parties),
        Term("rows", "copy", rows),
        Term("numbers", "copy", float(rows) * size.latent_dim),
        Term("bytes", "hash", float(size.parties) * size.uplink_bytes),
    ]
    if isinstance(model, AveragedTerms):
        found += _network_terms(rows, size.latent_dim, size.outputs, model)
    return found


def _network_terms(rows: int, inputs: int, outputs: int, model: AveragedTerms) -> list[Term]:
    batches = -(-rows // BATCH_ROWS)
    return [
        Term("batches", "interpreter", float(model.epochs) * batches),
        Term("activations", "copy", float(model.epochs) * rows * model.hidden_units),
        Term("network", "product", network_products(rows, inputs, outputs, model)),
    ]


def prepare_memory(size: Size) -> list[Term]:
    """Return what the memory of `odc prepare --no-attacks` is made of, in MiB."""
    n, m = size.rows, size.features
    return [
        Term("start", "copy", 1),
        Term("rows", "copy", n / MIB),
        Term("measured rows", "copy", 8.0 * _measured_rows(size) * m / MIB),
        Term("own model", "copy", 8.0 * min(n, OWN_MODEL_ROWS) * m / MIB),
        Term("squares", "copy", 8.0 * m**2 / MIB),
    ]


def align_memory(size: Size) -> list[Term]:
    """Return what the memory of a compute process that aligns is made of, in MiB."""
    numbers = float(size.parties) * size.anchor_rows * size.latent_dim
    return [Term("start", "copy", 1), Term("anchor", "copy", 4 * numbers / MIB)]


def train_memory(size: Size, model: Model) -> list[Term]:
    """Return what the memory of a compute process that trains is made of, in MiB."""
    rows = size.training_rows
    found = [Term("start", "copy", 1), Term("training rows", "copy", 4.0 * rows * size.latent_dim / MIB)]
    if isinstance(model, AveragedTerms):
        found.append(Term("labels and order", "copy", 8.0 * rows / MIB))
    return found


def _measured_rows(size: Size) -> int:
    most = min(MEASURED_ROWS, max(MEASURED_BYTES // (8 * size.features), 2 * size.features))
    return min(size.rows, most)


def _references(size: Size) -> int:
    """Return R: spans are judged among three parties or more, where l is at most half the dimension."""
    dimension = size.anchor_rows - (not size.anchor_is_isotropic)
    is_judged = size.parties > 2 and 2 <= size.latent_dim <= dimension / 2 and size.rows >= size.latent_dim
    return min(size.parties, REFERENCES) if is_judged else 0
