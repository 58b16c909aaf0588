"""The models that terms can name, with their options, and what a private one may tell of a row."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from pydantic import FailFast, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from protocol.codec import Message
from protocol.labels import Task
from protocol.limits import MAX_CANDIDATES, MAX_ROWS

# The models. `carries_rows` says whether a fitted model has training rows inside it. Whoever gets such a
# model can read them, so terms with one need a separate consent of every member.


class _WeighableTerms(Message):
    """What models of classes have in common whose training can let every class count the same."""

    class_weight: Literal["none", "balanced"] = "none"
    """With ``balanced``, each of the n_c rows of a class counts n / (k n_c), of n rows and k classes in all.
    Terms with ``none`` have no such field on the wire."""

    @model_serializer(mode="wrap")
    def _without_none(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialise(self)
        if self.class_weight == "none":
            content.pop("class_weight", None)
        return content


class MlpTerms(_WeighableTerms):
    """One hidden layer of ReLU units, Adam (paper 000 V-B: 256 units, learning rate 0.002)."""

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "number", "multilabel")

    kind: Literal["mlp"] = "mlp"
    hidden_units: int = Field(default=256, ge=1, le=2**16)
    learning_rate: float = Field(default=0.002, gt=0, le=1)
    epochs: int = Field(default=200, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**32)


class LogisticTerms(_WeighableTerms):
    """Multinomial logistic regression with an L2 penalty of 1 / (2 C)."""

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "multilabel")

    kind: Literal["logistic"] = "logistic"
    inverse_penalty: float = Field(default=1.0, gt=0, le=1e12)
    epochs: int = Field(default=1000, ge=1, le=100_000)


class RidgeTerms(Message):
    """Least squares with an L2 penalty of 1 / (2 C): the logistic regression's counterpart for a number."""

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("number",)

    kind: Literal["ridge"] = "ridge"
    inverse_penalty: float = Field(default=1.0, gt=0, le=1e12)
    """C; the largest is least squares."""


class CoxTerms(Message):
    """Cox's proportional hazards with an L2 penalty of 1 / (2 C), and Breslow's baseline, for survival."""

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("survival",)

    kind: Literal["cox"] = "cox"
    inverse_penalty: float = Field(default=0.1, gt=0, le=1e12)
    """C."""


class AveragedTerms(_WeighableTerms):
    """The mean of what a regularised logistic regression and a short, regularised MLP say.

    For a number, ridge regression takes the place of the logistic one.

    On small tables it does not overfit as a long MLP does, and on large ones it is not bound to straight
    boundaries as a logistic regression is.
    """

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "number", "multilabel")

    kind: Literal["averaged"] = "averaged"
    inverse_penalty: float = Field(default=0.1, gt=0, le=1e12)
    """C of the logistic or ridge regression."""
    hidden_units: int = Field(default=256, ge=1, le=2**16)
    learning_rate: float = Field(default=0.002, gt=0, le=1)
    epochs: int = Field(default=20, ge=1, le=100_000)
    weight_penalty: float = Field(default=1.0, ge=0, le=1e6)
    """L2 penalty of the network: this times the squared norm of its weights, divided by twice the rows of a
    batch, which has 200."""
    seed: int = Field(default=0, ge=0, lt=2**32)


class SvmTerms(_WeighableTerms):
    """Kernel support vector machine, one class against the rest: row-revealing.

    Its support vectors are training rows. The kernel is ``exp(-gamma ||x - y||^2)`` of representations
    scaled to variance one; a ``gamma`` of None stands for 1 / l.
    """

    carries_rows: ClassVar[bool] = True
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "multilabel")

    kind: Literal["svm"] = "svm"
    inverse_penalty: float = Field(default=1.0, gt=0, le=1e12)
    gamma: float | None = Field(default=None, gt=0, le=1e6)
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of the splits on which the probabilities are calibrated."""


class RandomFeatureSvmTerms(_WeighableTerms):
    """Linear support vector machine on random Fourier features of that kernel: it contains no rows.

    Rahimi and Recht, Random Features for Large-Scale Kernel Machines (NIPS 2007).
    """

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "multilabel")

    kind: Literal["random-feature-svm"] = "random-feature-svm"
    random_features: int = Field(default=512, ge=1, le=2**14)
    inverse_penalty: float = Field(default=1.0, gt=0, le=1e12)
    gamma: float | None = Field(default=None, gt=0, le=1e6)
    epochs: int = Field(default=1000, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of the random features, and of the splits on which the probabilities are calibrated."""


class KnnTerms(Message):
    """The mean of the nearest training rows' labels: row-revealing, for the model is those rows.

    Their weights are ``1 - d^2 / D^2``, where D is the distance of the first row that is not among them.
    """

    carries_rows: ClassVar[bool] = True
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "number")

    kind: Literal["knn"] = "knn"
    neighbours: int = Field(default=25, ge=1, le=10_000)


class RandomForestTerms(_WeighableTerms):
    """Trees on bootstrap samples of the rows, along the principal axes of the aligned representation."""

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "number", "multilabel")

    kind: Literal["random-forest"] = "random-forest"
    trees: int = Field(default=300, ge=1, le=10_000)
    rows_per_leaf: int = Field(default=5, ge=2, le=MAX_ROWS)
    """Fewest rows in a leaf, which holds their class shares."""
    seed: int = Field(default=0, ge=0, lt=2**32)


class GradientBoostingTerms(_WeighableTerms):
    """Boosted trees on histograms, along the principal axes of the aligned representation."""

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "number", "multilabel")

    kind: Literal["gradient-boosting"] = "gradient-boosting"
    trees: int = Field(default=100, ge=1, le=10_000)
    """Rounds; each adds one tree, or one for each of more than two classes."""
    learning_rate: float = Field(default=0.05, gt=0, le=1)
    rows_per_leaf: int = Field(default=20, ge=2, le=MAX_ROWS)
    leaves: int = Field(default=15, ge=2, le=2**16)
    """Most leaves of a tree."""
    seed: int = Field(default=0, ge=0, lt=2**32)


class QuadraticDiscriminantTerms(Message):
    """Under sums alone: a normal distribution of the rows of each class, of which the likelier has a new row.

    Its means and covariances tell two rows of a class, and most of three; sums have `min_rows` of each class.
    """

    carries_rows: ClassVar[bool] = False
    tasks: ClassVar[tuple[Task, ...]] = ("classes",)

    kind: Literal["quadratic-discriminant"] = "quadratic-discriminant"
    pooled_share: float = Field(default=0.9, ge=0, le=1)
    """How far the covariance of each class is drawn towards that of all; at 1 the model is linear."""


CandidateTerms: TypeAlias = (
    MlpTerms
    | LogisticTerms
    | RidgeTerms
    | CoxTerms
    | AveragedTerms
    | SvmTerms
    | RandomFeatureSvmTerms
    | RandomForestTerms
    | GradientBoostingTerms
    | KnnTerms
)


class AutoTerms(Message):
    """The best of several models by cross-validation on the rows that train: leaving out groups of parties.

    A time bounds the comparison, so that what is chosen may depend on how fast the analyst's machine is.
    """

    tasks: ClassVar[tuple[Task, ...]] = get_args(Task)

    kind: Literal["auto"] = "auto"
    candidates: Annotated[
        tuple[Annotated[CandidateTerms, Field(discriminator="kind")], ...],
        FailFast(),
        Field(min_length=2, max_length=MAX_CANDIDATES),
    ]
    """In the order in which they are tried, and preferred where several are as good."""
    budget_s: int = Field(default=600, ge=1, le=86_400)
    """Seconds after which no fit of another than the first begins; as many again for all fits for judging."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the division of the parties into groups."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.candidates)) != len(self.candidates):
            raise ValueError("candidates must be distinct")
        return self

    @property
    def carries_rows(self) -> bool:
        """Whether the chosen one may have training rows inside it."""
        return any(one.carries_rows for one in self.candidates)


ModelTerms = Annotated[CandidateTerms | QuadraticDiscriminantTerms | AutoTerms, Field(discriminator="kind")]


MODELS_OF_SCHEMA_1: Final = ("mlp", "logistic", "svm", "random-feature-svm")
"""The kinds that terms of schema 1 can name."""
PRIVATE_MODELS: Final[Mapping[str, tuple[str, ...]]] = {"mlp": ("hidden_units", "seed"), "logistic": ()}
"""The kinds that have a private training, each with its fields that count in it."""


@cache
def default_candidates(task: Task) -> tuple[CandidateTerms, ...]:
    """Return what `auto` compares if a draft names no candidates.

    The first is what is drafted without `auto`. A `random-feature-svm` draws smooth curves, which `averaged`
    is too short for and trees cut into steps.
    """
    match task:
        case "classes" | "multilabel":
            return (
                AveragedTerms(),
                LogisticTerms(),
                RandomForestTerms(),
                GradientBoostingTerms(),
                RandomFeatureSvmTerms(),
            )
        case "number":
            return (AveragedTerms(), RidgeTerms(), RandomForestTerms(), GradientBoostingTerms())
        case "survival":
            return (CoxTerms(), CoxTerms(inverse_penalty=0.01), CoxTerms(inverse_penalty=1.0))


def models_for(task: Task) -> list[str]:
    """Return the kinds of models that can predict this from rows, with `auto`."""
    kinds = (*get_args(CandidateTerms), AutoTerms)
    return [terms.model_fields["kind"].default for terms in kinds if task in terms.tasks]


def models_with_weights() -> list[str]:
    """Return the kinds of models that can be trained with class weights."""
    kinds = get_args(CandidateTerms)
    return [terms.model_fields["kind"].default for terms in kinds if "class_weight" in terms.model_fields]


def candidates_of(model: ModelTerms) -> tuple[CandidateTerms | QuadraticDiscriminantTerms, ...]:
    """Return the models of which one is trained: a model by itself, or those that `auto` compares."""
    return model.candidates if isinstance(model, AutoTerms) else (model,)


def weighted_kinds(model: ModelTerms) -> list[str]:
    """Return the kinds that would be trained with class weights, each once."""
    weighted = (one for one in candidates_of(model) if getattr(one, "class_weight", "none") != "none")
    return list(dict.fromkeys(one.kind for one in weighted))


def with_candidates(draft: Any, task: Task) -> Any:
    """Return the draft of a model, with the candidates of the task for an `auto` that names none."""
    if isinstance(draft, dict) and draft.get("kind") == "auto" and "candidates" not in draft:
        return {**draft, "candidates": default_candidates(task)}
    return draft


def model_in_words(model: ModelTerms) -> str:
    """Return the kind of a model, as the plain words have it."""
    if not isinstance(model, AutoTerms):
        return model.kind
    kinds = ", ".join(dict.fromkeys(one.kind for one in model.candidates))
    return f"auto: the best of several on rows that did not train them, of these kinds: {kinds}"


def revealing_in_words(model: ModelTerms) -> str:
    """Return the kinds that may come back with training rows inside."""
    return " or ".join(dict.fromkeys(one.kind for one in candidates_of(model) if one.carries_rows))


class ModelPrivacyTerms(Message):
    """DP-SGD: what the model h may tell of one row to those who get it (arXiv:1607.00133, Algorithm 1).

    With nothing instead of one projected row and its label, no set of models is more than
    ``exp(epsilon)`` times as likely, but for ``delta``: given all bases, changes of basis, scales and
    dithers, in which every row of a party has a part. The analyst is not protected against.
    """

    epsilon: float = Field(ge=0.1, le=100)
    delta: float = Field(ge=1e-9, le=0.01)
    steps: int = Field(default=100, ge=1, le=10_000)
    batch_rows: int = Field(default=1024, ge=1, le=MAX_ROWS)
    """Expected number of rows of one step; each takes part independently of the others."""
    learning_rate: float = Field(default=8.0, gt=0, le=1000)
