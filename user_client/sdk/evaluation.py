"""Did the collaboration help us? Its model beside one of our own rows alone, on rows that were not sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from protocol.answers import Score
from protocol.codec import digest
from protocol.errors import ConsentMissingError, InputError, OdcError
from protocol.labels import Label
from protocol.messages import MemberScore
from protocol.operations import SEND_SCORE
from protocol.terms import Terms
from user_client.class_scores import ClassScores, OfClass, class_scores, of_each_class
from user_client.custody.round_directory import ERRORS_FILE, EVALUATION_FILE, RoundDirectory
from user_client.custody.scratch import Scratch
from user_client.errors import NothingKeptBackError
from user_client.rows import Rows, sample_of
from user_client.scores import Metric, can_be_scored, compare, label_scores, too_few
from user_client.sdk.hold_out import LocalFit, described, local_model, stored_hold_out
from user_client.sdk.joined_rows import own_group, require_whole_rows
from user_client.sdk.predictor import Predictor
from user_client.sdk.releases import SentRows
from user_client.sdk.session import Session
from user_client.sdk.shared_rows import is_trained
from user_client.sdk.terms import accepted_terms
from user_client.tables import EncodedTable, encode_table

MOST_SCORED: Final = 300_000
"""Of more rows, about so many are scored: so many give a ROC-AUC to a thousandth or so."""
_IN_CLASSES: Final = ("together_in_classes", "alone_in_classes")
Verdict = Literal["gain", "loss", "unclear", "no comparison"]


@dataclass(frozen=True)
class Evaluation:
    """What the collaboration's model gains over a model of our own rows alone, on the same rows.

    Attributes
    ----------
    rows, of_rows : int
        How many rows the scores are of, and of how many these were drawn at random: all, if there are no more
        than `MOST_SCORED`.
    kept_back : bool
        Whether these are rows that `prepare` has kept back; if not, rows of another table.
    metric : {"roc_auc", "accuracy", "r2", "c_index"}
        ROC-AUC, the mean of one class against the rest or over several labels; accuracy if all rows have the
        same. R squared for numbers, and the concordance index for survival.
    together : float
        Score of the collaboration's model.
    alone : float
        Score of the model of our own rows alone. None if there is no such model, and then there are no
        ``gain_low`` and ``gain_high``, the ends of the 95 % interval of ``together - alone``.
    local_fit : LocalFit
        How that model was fitted.
    evaluated_at : int
    sent : bool
        Whether the analyst has received it for the report.
    together_in_classes, alone_in_classes : ClassScores, optional
        What else the two models score where the label is a class. They are never sent.
    by_label : mapping of str to mapping
        Of several labels, the ROC-AUC of each: ``together`` and ``alone``, None where there is none. They are
        never sent.
    of_class : str, optional
        The second of two classes: PR-AUC and calibration are of it.
    by_class : mapping of str to OfClass
        Of classes, how the collaboration's model does on each. They are never sent.
    without_rows : tuple of str
        Classes that none of the rows has, and that no mean over classes counts.
    trained : str, optional
        The kind of our own model of the shared rows, if `Round.train` has made one: then ``together`` is its
        score, and not that of the model that all have.
    too_few : str, optional
        Why these rows tell no interval of the gain, in words; then there are no ``gain_low`` and
        ``gain_high``.
    left_out : int, optional
        Rows of another table than the prepared one that were sent, and are not scored; None where it is the
        prepared one, or nothing is known of what was sent.
    """

    rows: int
    of_rows: int
    kept_back: bool
    metric: Metric
    together: float
    alone: float | None
    gain_low: float | None
    gain_high: float | None
    local_fit: LocalFit | None
    evaluated_at: int
    sent: bool = False
    together_in_classes: ClassScores | None = None
    alone_in_classes: ClassScores | None = None
    by_label: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    of_class: str | None = None
    by_class: Mapping[str, OfClass] = field(default_factory=dict)
    without_rows: tuple[str, ...] = ()
    trained: str | None = None
    too_few: str | None = None
    left_out: int | None = None

    @property
    def score(self) -> Score:
        """The part of it that may be sent, as it is sent where the rows tell an interval."""
        return {
            "rows": self.rows,
            "metric": self.metric,
            "together": self.together,
            "alone": self.alone,
            "gain_low": self.gain_low,
            "gain_high": self.gain_high,
        }

    @property
    def verdict(self) -> Verdict:
        """Whether these rows show that the collaboration helped: only an interval without zero does."""
        if self.alone is None:
            return "no comparison"
        if self.gain_low is None or self.gain_high is None:
            return "unclear"
        return "gain" if self.gain_low > 0 else "loss" if self.gain_high < 0 else "unclear"

    @property
    def notes(self) -> list[str]:
        """What the figures of classes are of, in words."""
        notes = [] if self.of_class is None else [f"PR-AUC and calibration are of the class {self.of_class}"]
        if len(self.by_class) > 2:
            notes.append("PR-AUC is the mean over the classes, and calibration of the likeliest one")
        if self.without_rows:
            names = ", ".join(self.without_rows)
            notes.append(f"no row here has the class {names}: no mean over classes counts it")
        return notes

    def to_json(self) -> dict[str, Any]:
        """Return this as `odc evaluate` stores and prints it."""
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Evaluation:
        """Return what `to_json` was made from; raises `ValueError` or the like for another value."""
        # earlier versions have scored all rows, of one label, and named no class and no model of our own
        earlier = {"of_rows": value["rows"], "by_label": {}, "of_class": None, "without_rows": ()}
        value = {**earlier, "by_class": {}, "trained": None, "too_few": None, "left_out": None, **value}
        value["by_class"] = {name: OfClass(**one) for name, one in value["by_class"].items()}
        value["without_rows"] = tuple(value["without_rows"])
        content = {name: value[name] for name in cls.__dataclass_fields__ if name not in _IN_CLASSES}
        fit = content["local_fit"]
        in_classes = {  # earlier versions have not stored them
            name: ClassScores.from_json(value[name]) for name in _IN_CLASSES if value.get(name)
        }
        return cls(**{**content, **in_classes, "local_fit": LocalFit(**fit) if fit else None})


def evaluate(session: Session, directory: RoundDirectory, data: Any, *, send: bool) -> Evaluation:
    """Score both models on the rows that were kept back of a table, and store the result."""
    terms = accepted_terms(directory)
    if send and not terms.returns_scores:
        error: OdcError = ConsentMissingError("the terms do not let institutions send their scores back")
        error.hint = "run the command without --send: the result stays here"
        raise error
    with directory.exclusive():
        predictor = Predictor(directory)  # before the table is read
        require_whole_rows(own_group(directory), "an evaluation")
        if send and is_trained(directory):
            error = InputError("these would be scores of a model of our own, not of the one that all have")
            error.hint = "run the command without --send, or `odc train --remove` first"
            raise error
        found = _evaluated(directory, predictor, data, session.clock())
        _store(directory, found)
        if send:
            found = _sent(session, directory, terms, found)
    return found


@dataclass(frozen=True)
class _ToScore:
    """The rows of a table that neither model was fitted on.

    Attributes
    ----------
    rows, labels
        Of these rows, of which there is at least one.
    of_rows : int
        From how many they were drawn.
    kept_back : bool
        Whether they are rows of the prepared table.
    left_out : int, optional
        As for `Evaluation`.
    """

    rows: Rows
    labels: NDArray[Any]
    of_rows: int
    kept_back: bool
    left_out: int | None


def _to_score(directory: RoundDirectory, table: EncodedTable, sent: SentRows) -> _ToScore:
    """Return the rows to score; raises `NothingKeptBackError` if there are none."""
    kept = stored_hold_out(directory)
    is_ours = kept is not None and kept.table == table.digest
    rows, labels, left_out = table.rows, table.labels, None
    if kept is not None and is_ours:
        held_back = ~kept.leaves(len(rows))
        rows, labels = rows.where(held_back), labels[held_back]
    elif sent.are_known:  # both models know these rows, our own one best
        fresh = ~sent.in_table(len(rows))
        left_out = int((~fresh).sum())
        rows, labels = rows.where(fresh), labels[fresh]
    of_rows = len(rows)
    if not of_rows:
        if left_out:
            raise NothingKeptBackError(f"all {left_out:,} rows of this table were sent")
        what = "of this table, no row was kept back" if is_ours else "this table has no rows"
        raise NothingKeptBackError(what)
    if of_rows > MOST_SCORED:
        drawn = np.zeros(of_rows, np.bool_)
        drawn[sample_of(of_rows, MOST_SCORED, np.random.default_rng(0))] = True
        rows, labels = rows.where(drawn), labels[drawn]
    return _ToScore(rows, labels, of_rows, is_ours, left_out)


def _evaluated(directory: RoundDirectory, predictor: Predictor, data: Any, now: int) -> Evaluation:
    terms = predictor.terms
    scratch = Scratch(directory.path)
    sent = SentRows(directory, scratch)
    table = encode_table(data, predictor.schema, scratch.keep, labels_in_range=False, look=sent.look)
    scored, model = _to_score(directory, table, sent), local_model(directory)
    labels = scored.labels
    if not can_be_scored(labels, terms.task):
        raise NothingKeptBackError("the labels of these rows cannot tell a good model from a bad one")
    together = np.concatenate([predictor.outputs(block) for block in scored.rows.blocks()])
    if terms.task == "number":
        directory.write(ERRORS_FILE, np.sort(np.abs(together[:, 0] - labels.astype(np.float64))).tobytes())
    alone = None
    if model is not None:
        alone = np.concatenate([model.predictions(block) for block in scored.rows.blocks()])
    label = terms.table_schema.label_column
    of_classes, classes = terms.task == "classes", label.classes if isinstance(label, Label) else ()
    absent = tuple(name for number, name in enumerate(classes) if not (labels == number).any())
    return Evaluation(
        rows=len(labels),
        of_rows=scored.of_rows,
        kept_back=scored.kept_back,
        left_out=scored.left_out,
        **vars(compare(labels, together, alone, terms.task)),
        local_fit=described(terms, model),
        evaluated_at=now,
        together_in_classes=class_scores(labels, together) if of_classes else None,
        alone_in_classes=class_scores(labels, alone) if of_classes and alone is not None else None,
        of_class=classes[1] if len(classes) == 2 and not absent else None,
        by_class=dict(zip(classes, of_each_class(labels, together), strict=True)) if of_classes else {},
        without_rows=absent,
        by_label=_by_label(terms, labels, together, alone) if terms.task == "multilabel" else {},
        trained=predictor.kind if is_trained(directory) else None,
        too_few=None if alone is None else too_few(labels, terms.task, classes or label.columns),
    )


def _by_label(
    terms: Terms, labels: NDArray[Any], together: NDArray[np.floating], alone: NDArray[np.floating] | None
) -> dict[str, dict[str, float | None]]:
    """Return the ROC-AUC of each of several labels, with both models."""
    names = terms.table_schema.label_column.columns
    ours = label_scores(labels, together)
    own = [None] * len(names) if alone is None else label_scores(labels, alone)
    return {
        name: {"together": one, "alone": other} for name, one, other in zip(names, ours, own, strict=True)
    }


def _sent(session: Session, directory: RoundDirectory, terms: Terms, found: Evaluation) -> Evaluation:
    told = found.score if found.too_few is None else {**found.score, **_whole_range(found)}
    score = {  # a hundredth of a point: nobody needs the digits behind it
        name: round(value, 4) if isinstance(value, float) else value for name, value in told.items()
    }
    message = MemberScore(
        collaboration_id=terms.collaboration_id,
        terms_digest=digest(terms),
        party=session.membership.party,
        **score,  # type: ignore[arg-type]  # the message checks what each is
    )
    session.connection.ask(SEND_SCORE, session.sign(message), collaboration_id=terms.collaboration_id)
    sent = Evaluation(**{**vars(found), "sent": True})
    _store(directory, sent)
    return sent


def _whole_range(found: Evaluation) -> dict[str, float]:
    """Return what stands on the wire for no interval: all that a gain can be, of R squared 0 and more."""
    gained = found.together - (found.alone or 0.0)
    width = max(1.0, abs(gained))
    low, high = (gained - width, gained + width) if found.metric == "r2" else (-1.0, 1.0)
    return {"gain_low": low, "gain_high": high}


def _store(directory: RoundDirectory, found: Evaluation) -> None:
    directory.write(EVALUATION_FILE, json.dumps(found.to_json(), indent=2).encode())


def stored_evaluation(directory: RoundDirectory) -> Evaluation | None:
    """Return what was found last; None if nothing was evaluated."""
    if not directory.holds(EVALUATION_FILE):
        return None
    try:
        return Evaluation.from_json(json.loads(directory.read(EVALUATION_FILE)))
    except (ValueError, TypeError, KeyError):  # damaged, or written by another version: evaluate again
        return None
