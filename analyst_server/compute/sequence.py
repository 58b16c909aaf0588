"""Align and train: a round computed from its spec, as one function. `compute.judging` has what comes later.

The analyst's worker runs the steps in a compute process, tests and benchmarks run them where they are.
Either way arrays are read from the blobs and what is large is left there, under the keys of this computation;
everything small is returned. Nothing here knows a record, a key or the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import Blobs, StoredArray, store_array
from analyst_server.compute.aligned import Agreement, AlignedRound, SuspectedParty
from analyst_server.compute.trained import TrainedGroup, TrainedModel
from analyst_server.training import progress
from protocol.alignment_terms import AlignmentTarget, AnyAlignmentTerms, AutoAlignmentTerms
from protocol.joined_rows import JoinedRows
from protocol.labels import AnyLabel
from protocol.model_groups import ModelGroupsTerms
from protocol.model_terms import ModelPrivacyTerms, ModelTerms
from protocol.terms import Terms
from runtime.denormals import tiny_as_zero
from runtime.start_up import loading

if TYPE_CHECKING:  # the first imports this module
    from analyst_server.compute.joining import JoinedParties
    from analyst_server.compute.spreading import Hands
    from analyst_server.training.models import FittedModel

P = ParamSpec("P")
T = TypeVar("T")

MOST_TRAINING_BYTES: Final = 96 * 2**20
"""A fit takes several times that."""


@dataclass(frozen=True)
class PartyArrays:
    """What one party sent, or a group whose rows are joined; scales come with 8-bit representations only.

    ``row_keys`` are there until the rows are joined. ``dither`` is the strength that it states, 0 for none.
    """

    party: str
    rep: StoredArray
    anchor_rep: StoredArray
    labels: StoredArray
    rep_scale: StoredArray | None = None
    anchor_rep_scale: StoredArray | None = None
    row_keys: StoredArray | None = field(default=None, kw_only=True)
    dither: float = field(default=0.0, kw_only=True)

    @property
    def arrays(self) -> list[StoredArray]:
        scales = (self.rep_scale, self.anchor_rep_scale)
        given = (self.rep, self.anchor_rep, self.labels, *scales, self.row_keys)
        return [array for array in given if array is not None]


@dataclass(frozen=True)
class InstalledAlignment:
    """A method of another package, for simulations: no terms can name it. The fields are those of terms."""

    method: str
    target: AlignmentTarget = "identity"
    seed: int = 0


@dataclass(frozen=True)
class RoundSpec:
    """Everything that the computation of a sealed round depends on.

    Attributes
    ----------
    parties : tuple of PartyArrays
        With the party first that has the most rows: its anchor representation may become the target.
    label : Label, NumberLabel, SurvivalLabel or MultiLabel
        As the terms have it.
    alignment, model : AnyAlignmentTerms or InstalledAlignment, ModelTerms
        As the terms have them.
    anchor_is_isotropic : bool
        Whether ``A.T @ A`` is a multiple of the identity by construction.
    folder : str
        Folder of the blobs that this computation writes. Each computation has its own, because a worker
        that has lost its lease may still be writing.
    returns_anchor_predictions : bool
        Whether the terms ask for predictions for each party's anchor rows.
    train_on_suspected_rows : bool
        Whether the rows of a party that breaks an assumption train the model.
    rows_have_noise : bool
        Whether a party has stated that it added noise to its rows or to their projection.
    model_privacy : ModelPrivacyTerms, optional
        What the model may tell of one row.
    features : int
        Encoded features of a row; a model with privacy takes its scale from them.
    latent_dim : int, optional
        l of the common representation; the smallest l_i if not given.
    keeps_target : bool
        Whether parties may come that are aligned to the same target later.
    lacking : frozenset of str
        The parties that take part without some columns.
    maps_are_linear : bool
        Whether every party sends orthonormal projections, and none a map of its own.
    model_groups : ModelGroupsTerms, optional
        Which parties share a model, if not all do.
    joined_rows : tuple of JoinedRows
        Whose rows are still to be joined: `compute.joining` puts one of ``parties`` in the place of each.
    most_training_bytes : int
        Size in single precision up to which all rows train; of more, a part.
    """

    parties: tuple[PartyArrays, ...]
    label: AnyLabel
    alignment: AnyAlignmentTerms | InstalledAlignment
    model: ModelTerms
    anchor_is_isotropic: bool
    folder: str
    returns_anchor_predictions: bool = False
    train_on_suspected_rows: bool = False
    rows_have_noise: bool = False
    model_privacy: ModelPrivacyTerms | None = None
    features: int = 1
    latent_dim: int | None = None
    keeps_target: bool = False
    lacking: frozenset[str] = frozenset()
    maps_are_linear: bool = True
    model_groups: ModelGroupsTerms | None = None
    joined_rows: tuple[JoinedRows, ...] = ()
    most_training_bytes: int = MOST_TRAINING_BYTES

    @property
    def brings_far_rows_nearer(self) -> bool:
        """Return whether noise may make a row so long that it would decide a fit (docs/adr/0026).

        Without noise no row can be so long. A model with privacy bounds each row itself.
        """
        return self.rows_have_noise and self.model_privacy is None

    def dither_of(self, index: int) -> float:
        """Return the dither that a fit allows for in the rows of a party (docs/adr/0080), 0 for none.

        What is allowed for depends on all rows of the party, and a model with privacy may depend on no row
        by more than it states.
        """
        return 0.0 if self.model_privacy is not None else self.parties[index].dither

    def with_joined(self, groups: Iterable[PartyArrays]) -> RoundSpec:
        """Return the spec with the joined rows of each group in the place of its parties."""
        members = {party for group in self.joined_rows for party in group.parties}
        alone = [party for party in self.parties if party.party not in members]
        ordered = sorted([*alone, *groups], key=lambda one: (-one.rep.shape[0], one.party))
        return replace(self, parties=tuple(ordered), joined_rows=())

    @classmethod
    def of(
        cls,
        terms: Terms,
        parties: Sequence[PartyArrays],
        folder: str,
        *,
        rows_have_noise: bool,
        train_on_suspected_rows: bool = False,
    ) -> RoundSpec:
        """Return the spec of a round with these terms."""
        return cls(
            parties=tuple(parties),
            label=terms.table_schema.label_column,
            alignment=terms.alignment,
            model=terms.model,
            anchor_is_isotropic=terms.anchor.traits.is_isotropic,
            folder=folder,
            returns_anchor_predictions=terms.returns_anchor_predictions,
            train_on_suspected_rows=train_on_suspected_rows,
            rows_have_noise=rows_have_noise,
            model_privacy=terms.model_privacy,
            features=terms.table_schema.width,
            latent_dim=terms.latent_dim,
            keeps_target=bool(terms.late_consumers),
            lacking=frozenset(each.party for each in terms.absent_columns),
            maps_are_linear=not terms.own_maps,
            model_groups=terms.model_groups,
            joined_rows=tuple(
                group for group in terms.joined_rows if any(one.party in group.parties for one in parties)
            ),
        )


@dataclass(frozen=True)
class RoundResult:
    """What a round came to; the large arrays lie in the folder of its spec.

    ``parties`` are in the order of the changes of basis, each group of joined rows as one of them.
    """

    alignment: AlignedRound
    model: TrainedModel
    parties: tuple[str, ...]
    joined: tuple[JoinedParties, ...] = ()

    @property
    def suspected(self) -> list[str]:
        """The parties that seem to break an assumption."""
        return [suspicion.party for suspicion in self.alignment.suspicions]

    def as_json(self) -> dict[str, Any]:
        """Return what the records keep of it and the report shows."""
        return {
            **self.model.as_json(),
            **({"alignment_choice": self.alignment.choice} if self.alignment.choice else {}),
            **({"joined_rows": [group.as_json() for group in self.joined]} if self.joined else {}),
            "alignment": {
                **asdict(self.alignment.agreement),
                "suspicions": [asdict(suspicion) for suspicion in self.alignment.suspicions],
                "left_out": list(self.alignment.left_out),
            },
        }


class Run(Protocol):
    """Runs one step of a round, here or in another process, and returns its result."""

    def __call__(self, step: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T: ...


def here(step: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """Run a step in this thread."""
    return step(*args, **options)


def compute_round(
    spec: RoundSpec,
    blobs: Blobs,
    *,
    run: Run = here,
    on_aligned: Callable[[], None] = lambda: None,
) -> RoundResult:
    """Join the rows that are to be joined, align all parties and train the model on their rows.

    Parameters
    ----------
    spec, blobs
        What to compute from; ``spec.folder`` is the only folder that is written to.
    run : callable
        Runs a step. Arguments and result of a step can be pickled.
    on_aligned : callable
        Called between alignment and training.

    Raises
    ------
    ValueError
        As `join_rows`, `align_parties` and `train_model` do; the text says what is wrong with the data.
    """
    joined: tuple[JoinedParties, ...] = ()
    if spec.joined_rows:
        from analyst_server.compute.joining import join_rows

        joined = run(join_rows, spec, blobs)
        spec = spec.with_joined(group.arrays for group in joined)
    alignment = run(align_parties, spec, blobs)
    on_aligned()
    try:
        model = run(train_model, spec, blobs, alignment)
    except ValueError as error:
        if not joined:
            raise
        # what training lacks may have been sent, and not be among the rows that all have
        raise ValueError("; ".join([*(group.in_words for group in joined), str(error)])) from error
    return RoundResult(alignment, model, tuple(party.party for party in spec.parties), joined)


def load_libraries() -> None:
    """Load what the steps of a round need, before it is sealed."""
    with loading():
        import analyst_server.compute.aligning
        import analyst_server.compute.judging
        import analyst_server.training.onnx_file  # noqa: F401  # to have it loaded


def align_parties(spec: RoundSpec, blobs: Blobs) -> AlignedRound:
    """Compute every G_i, and name the parties that break an assumption.

    Those, and parties without rows, get their G_i but do not shape what all are aligned to (docs/adr/0008).

    Raises
    ------
    ValueError
        If a party's anchor representation cannot be aligned, or nobody's rows are left to train on.
    DamagedBlobError
        If an array is not what was signed.
    """
    from analyst_server.compute.spreading import hands_for

    with hands_for(spec, blobs) as hands:
        return _align_with(hands, spec, blobs)


def _align_with(hands: Hands, spec: RoundSpec, blobs: Blobs) -> AlignedRound:
    # loaded in the compute process alone: SciPy takes as long to load as the rest of the server
    from analyst_server.alignment.suspicion import suspects, trusted_parties
    from analyst_server.compute.aligning import Aligner

    # all of them now: what is damaged should be known before hours of work
    hands.require_intact([array for party in spec.parties for array in party.arrays])
    progress.begin("aligning")
    names = [party.party for party in spec.parties]
    anchor_reps = hands.anchor_reps(spec.parties)
    row_counts = [party.rep.shape[0] for party in spec.parties]
    # who lacks columns has another span than the others for a reason that the terms name
    judged = [0 if party.party in spec.lacking else party.rep.shape[0] for party in spec.parties]
    found = suspects(
        anchor_reps,
        anchor_is_isotropic=spec.anchor_is_isotropic,
        row_counts=judged,
        maps_are_linear=spec.maps_are_linear,
    )
    trusted = trusted_parties(len(anchor_reps), found, row_counts)
    suspicions = tuple(
        SuspectedParty(names[one.index], one.assumption, one.evidence, row_counts[one.index]) for one in found
    )
    aligner = Aligner(spec, blobs, anchor_reps, trusted, suspicions)
    if isinstance(spec.alignment, AutoAlignmentTerms):
        aligned, compared, choice = aligner.chosen(spec.alignment)
    else:
        aligned, compared, choice = aligner.by(spec.alignment.method), {}, None

    def by_party(values: Sequence[T]) -> dict[str, T]:
        return dict(zip(names, values, strict=True))

    def keep(name: str, changes: NDArray[Any]) -> StoredArray:
        # the model is judged with them later
        return store_array(blobs, f"{spec.folder}/{name}", changes, survives_power_cut=True)

    measured = aligned.diagnostics
    return AlignedRound(
        method=aligned.method,
        changes_of_basis=keep("changes_of_basis", aligned.changes),
        agreement=Agreement(
            concordance_gap=measured.concordance_gap,
            party_gaps=by_party(measured.party_gaps),
            spectrum_spread=by_party(measured.spectrum_spread),
            singular_values=by_party(measured.singular_values),
            spectra=by_party(measured.spectra),
            span_angles=by_party(measured.span_angles),
        ),
        suspicions=suspicions,
        left_out=aligner.left_out,
        trusted=len(trusted),
        target=store_array(blobs, f"{spec.folder}/target", aligned.target) if spec.keeps_target else None,
        compared={method: keep(f"changes_by_{method}", changes) for method, changes in compared.items()},
        choice=choice.as_json() if choice else None,
    )


@tiny_as_zero()
def train_model(spec: RoundSpec, blobs: Blobs, alignment: AlignedRound) -> TrainedModel:
    """Stack X~_i G_i, train h, and check that its ONNX file says the same.

    Raises
    ------
    ValueError
        If a class has no row, or the ONNX file differs from the trained model.
    """
    # loaded in the compute process alone, as above
    from analyst_server.compute.anchor_predictions import predict_anchors
    from analyst_server.compute.model_registry import (
        grouping_of,
        naming_classes,
        task_of,
        trained_model_of,
    )
    from analyst_server.compute.training_rows import training_rows
    from analyst_server.training.groups import fit_groups
    from analyst_server.training.judgement import NOT_JUDGED, NOT_YET
    from analyst_server.training.onnx_file import checked_file

    progress.begin("training")
    changes = alignment.changes_of_basis.open(blobs)
    rows = training_rows(spec, blobs, changes, alignment.left_out)
    model, task = trained_model_of(spec.model, spec.model_privacy, spec.features), task_of(spec.label)
    grouping = grouping_of(spec.model_groups)
    with naming_classes(spec.label):
        fits = fit_groups(model, rows.aligned_rep, rows.labels, task, rows.senders, grouping)
    fitted, gaps = fits.of_all, []

    def keep(name: str, fitted: FittedModel, own: NDArray[Any]) -> StoredArray:
        onnx_file, gap = checked_file(fitted, fitted.model.probes(own))
        gaps.append(gap)
        return store_array(blobs, f"{spec.folder}/{name}", np.frombuffer(onnx_file, np.uint8))

    onnx_file = keep("model", fitted, rows.aligned_rep)
    groups = tuple(
        TrainedGroup(
            parties=tuple(rows.parties[party] for party in group.parties),
            onnx_file=keep(f"model_of_group_{number}", group.fitted, rows.of(group.parties)),
            rows=group.rows,
            parameters=group.fitted.parameters,
            name=group.fitted.choice.name if group.fitted.choice else None,
        )
        for number, group in enumerate(fits.groups)
    )
    predictions = None
    if spec.returns_anchor_predictions:
        predictions = predict_anchors(spec, blobs, changes, fitted.predictions)
    return TrainedModel(
        onnx_file=onnx_file,
        anchor_predictions=predictions,
        rows=len(rows.labels),
        of_rows=rows.of_rows if rows.of_rows > len(rows.labels) else None,
        far_rows=rows.far_rows,
        parameters=fitted.parameters,
        converged=all(one.converged for one in (fitted, *(group.fitted for group in fits.groups))),
        parity_gap=max(gaps),
        judgement=(NOT_YET if model.may_be_judged else NOT_JUDGED).as_json(),
        privacy=fitted.model.spent_on(len(rows.labels)),
        choice=fitted.choice.as_json() if fitted.choice else None,
        groups=groups if grouping is not None else None,
    )
