"""What a report is made of, as a member, the analyst's operator and every program read it."""

from __future__ import annotations

from typing import Any, NotRequired, Required

from metering.explanation import RoundBytes
from protocol.answers import Answer, ReportHead


class AnchorShape(Answer):
    """The anchor of a report."""

    kind: str
    rows: int


class PartyReport(Answer):
    """What one party sent and is sent."""

    party: str
    rows: int | None
    """None under sums: the analyst does not learn it."""
    latent_dim: int | None
    """How many numbers it sends of a row; None under sums."""
    late_consumer: bool
    absent_columns: list[str]
    """The columns that it takes part without."""
    joined_with: NotRequired[list[str]]
    """The parties that hold the other columns of its rows; none from earlier versions."""
    uplink_formula_bytes: float
    uplink_payload_bytes: int
    downlink_formula_bytes: float | None
    """None until the model is trained."""
    received_at: int | None
    privacy: dict[str, Any] | None
    """The fields of its `PrivacyRecord`; None where the viewer is another member."""


class Suspicion(Answer):
    """A party that breaks an assumption of the alignment."""

    party: str
    assumption: str
    evidence: str
    rows: int


class AlignmentReport(Answer):
    """The diagnostics of the alignment. Rounds of earlier versions have fewer of them."""

    concordance_gap: float
    party_gaps: dict[str, float]
    spectrum_spread: NotRequired[dict[str, float]]
    singular_values: NotRequired[dict[str, tuple[float, float]]]
    spectra: NotRequired[dict[str, list[float]]]
    """Up to 32 singular values of each party, the largest first; to the analyst's operator alone."""
    span_angles: NotRequired[dict[str, tuple[float, float]]]
    """The median and the largest principal angle, in degrees."""
    suspicions: NotRequired[list[Suspicion]]
    left_out: NotRequired[list[str]]
    """Parties whose rows did not train the model."""


class IntervalReport(Answer):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


class HeadlineReport(Answer, total=False):
    """The scores that a member may expect for its own new rows: those of its kind of label."""

    roc_auc: IntervalReport
    accuracy: IntervalReport
    brier: IntervalReport
    """Earlier versions have no Brier score."""
    pr_auc: IntervalReport
    """Rounds of earlier versions have neither this nor a calibration."""
    ece: IntervalReport | None
    """None where too few rows were scored, as for the other two."""
    calibration_slope: IntervalReport | None
    calibration_intercept: IntervalReport | None
    r2: IntervalReport
    rmse: IntervalReport
    """In the unit of the label column, as ``mae``."""
    mae: IntervalReport
    c_index: IntervalReport
    ibs: IntervalReport
    labels: dict[str, IntervalReport]
    """Of several labels the ROC-AUC of each, by its name; the figures beside it are means over them."""


class BinReport(Answer):
    """A line of a calibration table."""

    rows: int
    predicted: float
    """The mean probability of the second class; of more than two, of the most likely one."""
    observed: float
    """The share of the rows that are of it."""


class CalibrationReport(Answer):
    """A calibration table (docs/scores.md)."""

    bins: list[BinReport]
    ece: float
    ece_by_chance: float
    """About what probabilities that are right would have on as many rows."""


class PartyScoreReport(Answer, total=False):
    """The scores of one party's held-out rows, by the same names."""

    rows: Required[int]
    roc_auc: float
    accuracy: float
    brier: float
    pr_auc: float
    ece: float | None
    calibration_slope: float | None
    calibration_intercept: float | None
    calibration: CalibrationReport | None
    r2: float
    rmse: float
    mae: float
    c_index: float
    ibs: float
    labels: dict[str, float]


class EstimateReport(HeadlineReport):
    """The means over parties, and each party's own scores; a member is shown none of the latter."""

    calibration: NotRequired[CalibrationReport | None]
    """Of the scored rows of all parties; None for a member, who could count others' classes in it."""
    by_party: Required[dict[str, PartyScoreReport]]


class JudgementReport(Answer):
    """How the model scores on rows that did not train it (docs/scores.md)."""

    within: EstimateReport | None
    """Rows held out inside every party."""
    across: EstimateReport | None
    """Whole parties held out."""
    headline: HeadlineReport | None
    why_none: str | None
    """Why there is no headline, in one sentence."""
    one_for_all: NotRequired[EstimateReport | None]
    """Where groups have models of their own: what one model for all scores on the rows of ``within``."""
    notes: list[str]
    """Fits that could not be made."""
    is_pending: NotRequired[bool]
    """Whether the model is still to be judged; judgements of earlier versions do not say."""


class CandidateReport(Answer):
    """One model or alignment of a choice."""

    name: str
    """Of a model its kind, with the options that are not the defaults; of an alignment its method."""
    mean: float | None
    """Over the folds, of the score that decides; None without one."""
    spread: float | None
    """Its standard deviation over the folds."""
    folds: int
    parameters: int | None
    """None for an alignment."""
    why_none: str | None
    """Why there is no score, in one sentence."""


class ChoiceReport(Answer):
    """Which models or alignments were compared on the rows that train, and what was chosen."""

    chosen: str
    rule: str
    folds: str
    """What was left out, in words."""
    metric: str
    scored_parties: int
    candidates: list[CandidateReport]
    scored_by: NotRequired[str]
    """Of alignments: the model whose scores these are."""


class ModelPrivacyReport(Answer):
    """What a differentially private model may tell of one row, and the noise it took (docs/privacy.md)."""

    epsilon: float
    delta: float
    steps: int
    sampling_rate: float
    clip: float
    noise_multiplier: float


class GroupReport(Answer):
    """Parties with like shares of the classes, and the model that they share."""

    parties: list[str]
    rows: int
    """That trained it."""
    model_parameters: int
    model: NotRequired[str]
    """The kind and options that the model ``auto`` chose for it."""


class JoinedReport(Answer):
    """Rows that several parties hold different columns of."""

    labels: str
    """The party that has the labels: the group goes by its name elsewhere in the results."""
    rows: int
    """That all of them have, and that were joined."""
    sent: dict[str, int]
    """By party: how many rows it sent."""


class Results(Answer):
    """What the round computed."""

    rows: int
    """That trained the model."""
    of_rows: NotRequired[int]
    """How many there were, where only a part trained it."""
    far_rows: NotRequired[dict[str, int]]
    """By party: how many of its rows were far from all others, and were brought nearer."""
    model_parameters: int
    converged: bool
    parity_gap: float
    hold_out_scores: dict[str, float] | None
    """The means of the headline, None without one. Earlier versions: scores on rows of all parties pooled."""
    judgement: NotRequired[JudgementReport]
    """Rounds of earlier versions have none."""
    model_privacy: NotRequired[ModelPrivacyReport]
    choice: NotRequired[ChoiceReport]
    """Where the terms have the model ``auto``."""
    alignment_choice: NotRequired[ChoiceReport]
    """Where they have the alignment ``auto``."""
    groups: NotRequired[list[GroupReport]]
    """Those that have a model of their own, where the terms have ``model_groups``; ``rows`` and
    ``model_parameters`` are of the model of all rows."""
    joined_rows: NotRequired[list[JoinedReport]]
    """The groups of parties whose rows were joined, where the terms have ``joined_rows``."""
    alignment: NotRequired[AlignmentReport]
    """Sums are not aligned."""


class Step(Answer):
    """An entry of the ledger, without its digests."""

    at: int
    event: str
    party: str | None
    state: str


class Report(ReportHead):
    """What happened in a collaboration and what it cost, as the REST API and ``--json`` show it."""

    anchor: AnchorShape
    own_maps: NotRequired[list[str]]
    """The kinds of non-linear maps that each party may apply to its rows; none from earlier versions."""
    results: Results | None
    parties: list[PartyReport]
    """Those whose uplink is received."""
    wire: RoundBytes | None
    """None if nothing was measured yet."""
    history: list[Step]
