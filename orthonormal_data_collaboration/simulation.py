"""A whole round in one process and without a network, by the code of the product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analyst_server.alignment import installed_names
from analyst_server.compute.sequence import InstalledAlignment, RoundResult
from metering.formulas import FORMULA_BITS, BreakEven, Round, break_even_rounds, whole_round
from orthonormal_data_collaboration.bases import CONDITIONS, ORTHONORMAL, Condition
from orthonormal_data_collaboration.drafting import AnyTerms, task_of, terms_of
from orthonormal_data_collaboration.estimators import (
    MemberClassifier,
    MemberMultiLabelClassifier,
    MemberRegressor,
    MemberSurvival,
)
from orthonormal_data_collaboration.members import Streams
from orthonormal_data_collaboration.parties import Data, read_parties
from orthonormal_data_collaboration.playing import Played, PlayedMember, Projected, Wishes, play
from orthonormal_data_collaboration.summary import by_party
from protocol.alignment_terms import AlignmentMethod
from protocol.errors import InputError
from protocol.labels import Task
from protocol.terms import Terms
from user_client.scores import Comparison, can_be_scored, compare
from user_client.sdk import Attack, AttackLevel, DraftedEvent, Prepared, PrivacyOptions
from user_client.sdk.desk import attack as attack_uplink
from user_client.sdk.desk import check_level
from user_client.secret.expansion import Matrix64

Estimator = MemberClassifier | MemberRegressor | MemberSurvival | MemberMultiLabelClassifier
_ESTIMATORS: Final[Mapping[Task, type[Estimator]]] = {
    "classes": MemberClassifier,
    "number": MemberRegressor,
    "survival": MemberSurvival,
    "multilabel": MemberMultiLabelClassifier,
}


class Member:
    """One party of a simulated round: what it knows, what it sent, and what it got.

    Attributes
    ----------
    name : str
    uplink_bytes, downlink_bytes : int
        Of the arrays that it sends and gets, without framing, HTTP and TLS.
    """

    def __init__(self, played: PlayedMember, terms: Terms) -> None:
        self._played, self._terms = played, terms
        self.name = played.encoded.name
        self.uplink_bytes, self.downlink_bytes = played.uplink_bytes, played.downlink_bytes

    def __repr__(self) -> str:
        return f"<Member {self.name}, {self.rows} rows sent>"

    @property
    def rows(self) -> int:
        """How many rows it sent, or summed."""
        if self._played.projected is None:
            return len(self._played.encoded.table.rows) - len(self.held_out)
        return len(self._played.projected.rep)

    @property
    def held_out(self) -> NDArray[np.int64]:
        """The numbers of the rows of its table that it kept back, to evaluate on."""
        return self._played.encoded.kept.rows

    @property
    def encoded_rows(self) -> Matrix64:
        """X_i, (n, m): all rows of its table, encoded by the terms."""
        return np.asarray(self._played.encoded.table.rows)

    @property
    def secret_basis(self) -> Matrix64:
        """F_i, (m, l): zero on the features of columns that the terms say the party lacks.

        Behind a map of its own it is (D, l), with the scale of the map.
        """
        found = self._projected.made.treated.secret_basis
        if self._projected.made.treated.own_map is not None:
            return found
        whole = np.zeros((self._terms.table_schema.width, found.shape[1]))
        whole[self._terms.features_of(self.name)] = found
        return whole

    @property
    def rep(self) -> NDArray[np.floating]:
        """X~_i = X_i F_i, (n_i, l), with its noise, as the analyst reads it."""
        return self._projected.rep

    @property
    def anchor_rep(self) -> NDArray[np.floating]:
        """A_i = A F_i, (a, l), as the analyst reads it."""
        return self._projected.anchor_rep

    @property
    def labels(self) -> NDArray[Any]:
        """L_i, (n_i,), as they are on the wire: class numbers, or numbers between -1 and 1."""
        return self._projected.labels

    @property
    def change_of_basis(self) -> Matrix64:
        """G_i, (l, l), as it came back."""
        return self._projected.change_of_basis

    @property
    def aligned_rep(self) -> Matrix64:
        """X^_i = X~_i G_i, (n_i, l): what the model is trained on."""
        return np.asarray(self.rep @ self.change_of_basis)

    @property
    def prepared(self) -> Prepared:
        """What `odc prepare` would show: what leaves, and what that risks."""
        return self._projected.made.prepared

    def attack(self, level: AttackLevel = "quick") -> tuple[Attack, ...]:
        """Attack its uplink, as `odc prepare` does: "quick" takes seconds, "thorough" minutes."""
        exposed = self._projected.made.exposed
        return () if exposed is None else attack_uplink(exposed, level)

    @cached_property
    def evaluation(self) -> Comparison | None:
        """Scores on the rows that were kept back: together, alone and the gain; None if they tell nothing."""
        table, played = self._played.encoded.table, self._played
        kept = ~played.encoded.kept.leaves(len(table.rows))
        labels = table.labels[kept]
        if not len(labels) or not can_be_scored(labels, table.task):
            return None
        rows = np.asarray(table.rows.where(kept))
        alone = None if played.alone is None else played.alone.predictions(rows)
        return compare(labels, played.answer(rows), alone, table.task)

    @property
    def _projected(self) -> Projected:
        if self._played.projected is None:
            raise InputError("no row leaves under sums: there is no representation and no basis")
        return self._played.projected


class Simulation(Mapping[str, Estimator]):
    """A round that was played: a mapping of each party to its fitted estimator.

    Attributes
    ----------
    terms : Terms
        Under which it was played. A method of another package is no part of them: see ``method``.
    members : dict of str to Member
        What each party knew, sent and got, in the order of the parties.
    anchor : (a, m) ndarray of float64, optional
        A, which all parties share and the analyst does not know; None under sums.
    onnx_file : bytes
        The model h.
    remarks : tuple of str
        What a person should look at in the draft, as `odc terms draft` says it; empty if terms were given.
    """

    def __init__(
        self,
        terms: Terms,
        data: Data,
        played: Played,
        fitted_with: Mapping[str, Any],
        remarks: Sequence[str] = (),
    ) -> None:
        self.remarks = tuple(remarks)
        self.terms, self.anchor, self.onnx_file = terms, played.anchor, played.onnx_file
        self.members = {name: Member(one, terms) for name, one in played.members.items()}
        self._result = played.result
        label = terms.table_schema.label_column
        self._estimators: dict[str, Estimator] = {}
        for name, one in played.members.items():
            estimator = _ESTIMATORS[terms.task](name, **fitted_with)
            held = terms.schema_of(name)
            absent = set(terms.absent_columns_of(name))
            columns = [
                each
                for each in data.tables[name].column_names
                if each not in label.columns and each not in absent
            ]
            estimator.take(self, held, one.answer, columns, data.classes)
            self._estimators[name] = estimator

    def __repr__(self) -> str:
        return f"<Simulation of {len(self)} parties, {self.report['rows']} rows, {self.method or 'sums'}>"

    def __getitem__(self, party: str) -> Estimator:
        return self._estimators[party]

    def __iter__(self) -> Iterator[str]:
        return iter(self._estimators)

    def __len__(self) -> int:
        return len(self._estimators)

    @property
    def method(self) -> str | None:
        """The method that aligned the parties; None under sums."""
        return self._result.alignment.method if isinstance(self._result, RoundResult) else None

    @property
    def report(self) -> dict[str, Any]:
        """What the analyst's report says of alignment, model and judgement, as plain values."""
        return self._result.as_json()

    @property
    def suspected(self) -> list[str]:
        """The parties that seem to break an assumption of the alignment."""
        return self._result.suspected if isinstance(self._result, RoundResult) else []

    @property
    def formulas(self) -> Round:
        """The bytes of the round by the paper's formulas (3) to (6), at 32 bits a number; not under sums."""
        terms = self.terms
        if terms.sums is not None:
            raise InputError("the paper's formulas are about rows, and no row leaves under sums")
        members = self.members.values()
        return whole_round(
            rows=[member.rows for member in members],
            anchor_rows=terms.anchor.rows,
            features=terms.table_schema.width,
            latent_dim=terms.latent_dim,
            model_parameters=self._result.model.parameters,
            bits=FORMULA_BITS,
            own_dims=[member.prepared.latent_dim for member in members],
        )

    def break_even(self, participation: float = 1.0) -> BreakEven:
        """Return the rounds of federated averaging that cost as much, by formula (8); not under sums."""
        if isinstance(participation, bool) or not isinstance(participation, int | float | np.number):
            raise InputError(f"participation is a share above 0 and at most 1, got {participation!r}")
        if not 0 < participation <= 1:
            raise InputError(f"participation is a share above 0 and at most 1, got {participation:g}")
        terms, members = self.terms, self.members.values()
        if terms.sums is not None:
            raise InputError("the paper's formulas are about rows, and no row leaves under sums")
        if terms.least_latent_dim is not None:
            raise InputError("formula (8) has one latent dimension, and here each party has its own")
        return break_even_rounds(
            mean_rows=float(np.mean([member.rows for member in members])),
            anchor_rows=terms.anchor.rows,
            features=terms.table_schema.width,
            latent_dim=terms.latent_dim,
            model_parameters=self._result.model.parameters,
            participation=participation,
            parties=len(members),
        )

    def to_arrow(self) -> pa.Table:
        """Return one row for each party: rows, bytes, risk, agreement, and its gain on rows kept back.

        ``together`` and ``alone`` are scores by ``metric``; columns that do not apply are empty.
        """
        return by_party(self)

    def to_pandas(self) -> Any:
        """Return `to_arrow` as a data frame of pandas, which has to be installed."""
        return _as_pandas(self.to_arrow())

    def aligned_to_arrow(self) -> pa.Table:
        """Return all aligned rows X^, with the party and the label of each on the wire; not under sums."""
        parts = []
        for member in self.members.values():
            columns = {f"z{index}": column for index, column in enumerate(member.aligned_rep.T)}
            parts.append(pa.table({"party": [member.name] * member.rows, "label": member.labels, **columns}))
        return pa.concat_tables(parts)

    def aligned_to_pandas(self) -> Any:
        """Return `aligned_to_arrow` as a data frame of pandas, which has to be installed."""
        return _as_pandas(self.aligned_to_arrow())


def simulate(
    parties: Mapping[str, Any],
    terms: AnyTerms | None = None,
    *,
    random_state: Any = None,
    label: str | Sequence[str] | None = None,
    event: DraftedEvent | None = None,
    task: Task | None = None,
    drafted_by: Any = "lead",
    privacy: PrivacyOptions | Mapping[str, PrivacyOptions] | None = None,
    bases: Condition | None = None,
    public: Any = None,
    attack: AttackLevel = "none",
    judge: bool = False,
    train_on_suspected_rows: bool = False,
    **fields: Any,
) -> Simulation:
    """Play a whole round in this process, without a network, by the code of the product.

    Parameters
    ----------
    parties : mapping of str to (X, y) or table
        The rows of each party, the lead first. ``X`` is an array, data frame or Arrow table; a table (data
        frame, Arrow or path) holds the labels too, and ``label`` names their column. Of several labels, each
        with two values, ``y`` is (n, labels).
    terms : Terms, DraftedTerms, mapping or path, optional
        Without them the lead drafts terms from its own rows, as `odc terms draft` does.
    random_state : int, RandomState or Generator, optional
        Makes all that is drawn repeatable; None draws anew each time.
    label : str or sequence of str, optional
        The column to predict, or the columns of several labels; of ``(X, y)`` what ``y`` is called, "label"
        if not given, or "label_0", "label_1" and so on.
    event : DraftedEvent, optional
        Of survival, where ``label`` is the column of times.
    task : {"classes", "number", "survival", "multilabel"}, optional
        Without it, a label with decimals is a number, and any other label is a class.
    drafted_by : {"lead", "all"} or table
        Whose rows the terms are drafted from: the lead's, those of all parties (for experiments), or a table.
    privacy : PrivacyOptions or mapping of str to PrivacyOptions, optional
        What is done to the rows of all parties, or of some.
    bases : {"SameSpan-Orth", "SameSpan", "DiffSpan-Orth", "DiffSpan"}, optional
        Draw the bases under a condition of the paper. Without it each draws its own as the product does.
    public : table, optional
        What a public anchor is taken from.
    attack : {"none", "quick", "thorough"}
        How long each party's uplink is attacked before it leaves.
    judge : bool
        Whether the analyst judges the model by more fits, for the headline of its report.
    train_on_suspected_rows : bool
        Whether the rows of a party that breaks an assumption train the model.
    **fields
        Fields of the terms: ``latent_dim``, ``rep_dtype``, ``dither``, ``hold_out``, ``anchor``,
        ``alignment``, ``model``, ``model_privacy``, ``downlink``, ``sums`` and so on; alignment, model and
        anchor also by name. Without ``terms`` also options of `draft_terms`: ``encoding``, ``exclude`` and so
        on. The encoding "none" takes numbers between -1 and 1 as they are, as the papers do.

    Returns
    -------
    Simulation
        A mapping of each party to its fitted estimator.

    Raises
    ------
    InputError, TableError
        If an argument is none of its values, or rows do not fit the terms.
    ValueError
        If no model comes of the round: a party cannot be aligned, or a class has no row.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from orthonormal_data_collaboration import simulate
    >>> X, y = load_wine(return_X_y=True)
    >>> parties = {f"hospital-{i}": (X[i::3], y[i::3]) for i in range(3)}
    >>> found = simulate(parties, random_state=0, alignment="odc", model="logistic")
    >>> found
    <Simulation of 3 parties, 142 rows, odc>
    >>> found["hospital-1"].score(X, y) > 0.9
    True
    """
    given = task or (None if terms is None else task_of(terms))
    data = read_parties(parties, label=label, task=given)
    if bases is not None and bases not in CONDITIONS:
        raise InputError(f"bases must be one of {', '.join(CONDITIONS)}, got {bases}")
    check_level(attack)
    streams = Streams.of(random_state)
    of_each = _of_each_party(privacy, list(data.tables))
    named = dict(fields)
    installed, fields = _installed(fields)
    agreed, remarks = terms_of(data, terms, event=event, drafted_by=drafted_by, changes=fields)
    if bases is not None and agreed.least_latent_dim is not None:
        raise InputError("bases are drawn with one latent dimension for all: leave out least_latent_dim")
    if bases is not None and any(options.own_map is not None for options in of_each.values()):
        raise InputError("bases are drawn for linear maps: leave out own_map")
    if bases is not None and bases not in ORTHONORMAL and _has_isotropic_anchor(agreed):
        raise InputError(
            f"the condition {bases} needs an anchor that is not {agreed.anchor.kind}: say anchor='uniform'"
        )
    wishes = Wishes(
        privacy=of_each,
        bases=bases,
        public=public,
        level=attack,
        judge=judge,
        train_on_suspected_rows=train_on_suspected_rows,
        installed=installed,
    )
    played = play(agreed, data.tables, wishes, streams)
    options = {
        "label": label,
        "event": event,
        "drafted_by": drafted_by,
        "privacy": privacy,
        "bases": bases,
        "public": public,
        "attack": attack,
        "judge": judge,
        "train_on_suspected_rows": train_on_suspected_rows,
        **named,
    }
    again = {"parties": parties, "terms": terms, "options": options, "random_state": random_state}
    return Simulation(agreed, data, played, again, remarks)


def _has_isotropic_anchor(agreed: Terms) -> bool:
    """Return whether bases that are not orthonormal contradict the anchor, so that no analyst aligns them."""
    return agreed.sums is None and agreed.anchor.traits.is_isotropic


def _installed(fields: dict[str, Any]) -> tuple[InstalledAlignment | None, dict[str, Any]]:
    """Return the method of another package that is asked for, and the fields without it."""
    asked = fields.get("alignment")
    options = asked if isinstance(asked, Mapping) else {"method": asked}
    method = options.get("method")
    if method in (None, "auto", *get_args(AlignmentMethod)):
        return None, fields
    if method not in (names := installed_names()):
        error = InputError(f"no alignment method is called {method}")
        error.hint = f"take one of {', '.join((*get_args(AlignmentMethod), 'auto', *names))}"
        raise error
    if unknown := sorted(set(options) - {"method", "target", "seed"}):
        raise InputError(f"an alignment has no field {unknown[0]}")
    others = {name: value for name, value in fields.items() if name != "alignment"}
    return InstalledAlignment(**options), others


def _of_each_party(
    privacy: PrivacyOptions | Mapping[str, PrivacyOptions] | None, names: list[str]
) -> dict[str, PrivacyOptions]:
    if isinstance(privacy, PrivacyOptions):
        return dict.fromkeys(names, privacy)
    given = {} if privacy is None else privacy
    if not isinstance(given, Mapping) or not all(isinstance(one, PrivacyOptions) for one in given.values()):
        raise InputError(
            "privacy is PrivacyOptions for all parties, or a mapping of parties to PrivacyOptions"
        )
    if unknown := sorted(set(given) - set(names)):
        raise InputError(f"privacy is given for {unknown[0]}, which is no party")
    return {name: given.get(name, PrivacyOptions()) for name in names}


def _as_pandas(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ImportError:
        error = InputError("pandas is not installed")
        error.hint = "run `pip install pandas`, or take the Arrow table"
        raise error from None
