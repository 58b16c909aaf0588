"""One collaboration as its members would hold it, and what they would have had without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter
from sklearn.metrics import roc_auc_score

from analyst_server.compute.model_registry import model_of
from analyst_server.compute.sequence import RoundResult
from analyst_server.training.models import Model, fit
from benchmarks.data import Labels, Matrix
from benchmarks.defaults import rivals
from benchmarks.defaults.collaboration import Agreed, Encoded, Round, one_span
from benchmarks.defaults.tables import (
    LABEL,
    Source,
    bundled,
    for_all_members,
    levels_added,
    of_known_levels,
    real,
)
from protocol.model_terms import ModelTerms
from protocol.table_schema import Schema
from user_client.custody.keystream import KeyStream
from user_client.sdk import Signal, draft_terms
from user_client.sdk.privacy import draw_basis
from user_client.secret.basis import principal_axes
from user_client.secret.expansion import expand_anchor
from user_client.secret.signal import score_of
from user_client.secret.targets import targets_of
from user_client.tables import encode_labels, encode_rows

Way = Callable[[int, Matrix], NDArray[Any]]
"""Returns the probabilities of the classes for rows of the party of this number."""
Scored = tuple[int, Matrix, Labels]
"""A party that is scored, and the rows and labels it is scored on."""
Split = Literal["iid", "sites", "dirichlet", "one class"]
HELD_OUT: Final = 0.2
"""Share of each party's rows that drafted terms ask it to keep back; everything is scored on these."""
CONCENTRATION: Final = 0.3
"""Of the Dirichlet distribution from which the shares of each class are drawn."""
FEWEST_ROWS: Final = 10
SCORED: Final = 10
"""Number of parties over which scores are averaged; fifty would tell no more."""


@dataclass(frozen=True)
class Setup:
    """One table, how its rows are divided, and among how many parties (0: as many as there are sites)."""

    table: str
    split: Split
    parties: int


@dataclass(frozen=True)
class Party:
    """What one institution has: rows to send, and rows it keeps back."""

    table: pa.Table
    kept_back: pa.Table


@dataclass(frozen=True)
class Corrections:
    """What the members changed in the draft, so that it fits all rows that are sent.

    Attributes
    ----------
    levels : int
        Levels of columns that the largest party, which drafts, does not have.
    unscored : int
        Rows kept back with a level that nobody has sent: `odc predict` refuses them, and they are left out.
    """

    levels: int
    unscored: int


@dataclass(frozen=True)
class Outcome:
    """What one setup came to for one seed.

    Attributes
    ----------
    scores : dict of str to float
        ROC-AUC in percent, the mean over the scored parties.
    headline : float, optional
        ROC-AUC in percent that the analyst's report gives, if it judged and gives one.
    warnings : int
        How many parties were told before sending that the collaboration may predict worse: the signal is
        below the threshold of the terms, or cannot be told.
    corrections : Corrections
    """

    setup: Setup
    seed: int
    features: int
    latent_dim: int
    parties: int
    rows: int
    scores: dict[str, float]
    headline: float | None
    warnings: int
    corrections: Corrections = field(default_factory=lambda: Corrections(0, 0))


def run_job(job: tuple[Setup, int, bool], *, folder: Path | None) -> Outcome:
    """Run a setup with a seed; the bool is whether the analyst judges the model."""
    setup, seed, judged = job
    return run(setup, seed, folder, judged=judged)


@dataclass(frozen=True)
class Assembled:
    """What the members of one setup have before anything is sent, by the terms that the largest drafted.

    The terms are corrected to fit the rows that all of them send.

    Attributes
    ----------
    round : Round
        With the default bases, the dither and the number type of the terms.
    of_axes : list of (m, l) ndarrays
        Bases of principal axes alone.
    signals : list of Signal
        What each party was told before sending; None where its rows cannot tell.
    source : KeyStream
        From which more bases can be drawn.
    scored : list of (party, rows, labels)
        Which parties are scored, and on which encoded rows.
    """

    parties: list[Party]
    schema: Schema
    terms: Any
    round: Round
    of_axes: list[Matrix]
    signals: list[Signal | None]
    least_signal: float
    source: KeyStream
    scored: list[Scored]
    corrections: Corrections

    @property
    def classes(self) -> int:
        return int(self.schema.label_column.outputs)

    def undefended(self) -> Round:
        """Return the round without dither and 8-bit integers."""
        return replace(self.round, agreed=replace(self.round.agreed, rep_dtype="f4", dither=0.0))


def assemble(setup: Setup, seed: int, folder: Path | None) -> Assembled:
    """Divide the rows of a setup, draft terms from the largest party's, and draw all bases."""
    source = {**bundled(), **(real(folder) if folder else {})}[setup.table]()
    rng = np.random.default_rng([seed, setup.parties])
    parties = [_set_aside(source, rows, rng) for rows in divide(source, setup, rng)]
    parties = sorted(parties, key=lambda party: -party.table.num_rows)  # the largest leads
    names = sorted(set(source.table[LABEL].to_pylist()))
    drafted = draft_terms(parties[0].table, label=LABEL, parties=["a"], title="benchmark", classes=names)
    parties, schema, corrections = corrected(
        Schema.model_validate(drafted.content["table_schema"], strict=False), parties
    )
    encoded = [_encode(party, schema) for party in parties]
    terms: Any = TypeAdapter(ModelTerms).validate_python(drafted.content["model"])
    streams = KeyStream(np.random.default_rng([seed, 1]).bytes(32), "benchmark")
    latent_dim = min(drafted.latent_dim, schema.width)
    bases, signals, of_axes = [], [], []
    for party in encoded:
        score, (_, axes) = score_of(party.rows, targets_of(party.labels)), principal_axes(party.rows)
        bases.append(draw_basis(party.rows, score, latent_dim, streams.read, axes=axes))
        of_axes.append(draw_basis(party.rows, None, latent_dim, streams.read, axes=axes))
        signals.append(score.along(axes[:, :latent_dim]) if score else None)
    anchor = expand_anchor("haar", streams.read, rows=schema.width, features=schema.width)
    classes = schema.label_column.outputs
    agreed = Agreed(terms, schema.label_column, drafted.content["rep_dtype"], drafted.content["dither"])
    return Assembled(
        parties,
        schema,
        terms,
        Round(encoded, bases, anchor, agreed, seed),
        of_axes,
        signals,
        drafted.content["least_signal"],
        streams,
        scored_parties(encoded, own_tests=setup.split == "sites", classes=classes),
        corrections,
    )


def corrected(drafted: Schema, parties: Sequence[Party]) -> tuple[list[Party], Schema, Corrections]:
    """Return a draft with the levels of all rows that are sent, and the parties with the rows that it fits.

    A row that is kept back corrects nothing, because nobody has seen it when the terms are signed.
    """
    sent = Source("sent", pa.concat_tables([party.table for party in parties]))
    schema = for_all_members(drafted, sent)
    known = [replace(party, kept_back=of_known_levels(party.kept_back, schema)) for party in parties]
    before, after = (sum(one.kept_back.num_rows for one in each) for each in (parties, known))
    return known, schema, Corrections(levels_added(drafted, schema), before - after)


def run(setup: Setup, seed: int, folder: Path | None, *, judged: bool) -> Outcome:
    """Hold the collaboration of a setup, and score it beside its rivals."""
    held = assemble(setup, seed, folder)
    drafted_round, classes, encoded = held.round, held.classes, held.round.parties
    headline = None
    if judged:
        result, together = drafted_round.play()
        headline = _headline(result)
    else:
        together = drafted_round.play_unjudged()
    scores = {"together": mean_score(held.scored, classes, together)}
    others = {
        "axes alone": replace(drafted_round, bases=held.of_axes),
        "one span": replace(drafted_round, bases=one_span(drafted_round.bases, held.source.read)),
        "undefended": held.undefended(),
    }
    for name, other in others.items():
        scores[name] = mean_score(held.scored, classes, other.play_unjudged())
    ways = baselines(encoded, held.scored, model_of(held.terms), classes, seed)
    scores |= {name: mean_score(held.scored, classes, way) for name, way in ways.items()}
    return Outcome(
        setup,
        seed,
        held.schema.width,
        drafted_round.bases[0].shape[1],
        len(encoded),
        sum(len(party.rows) for party in encoded),
        scores,
        headline,
        sum(_warns(signal, held.least_signal) for signal in held.signals),
        held.corrections,
    )


def divide(
    source: Source, setup: Setup, rng: np.random.Generator, *, fewest: int = FEWEST_ROWS
) -> list[Labels]:
    """Return the row numbers of each party; a party with fewer rows than ``fewest`` does not take part."""
    labels = source.labels
    if setup.split == "sites":
        if source.sites is None:
            raise ValueError(f"{source.name} does not say which site a row came from")
        found = [np.flatnonzero(source.sites == site) for site in np.unique(source.sites)]
        return [rows for rows in found if len(rows) >= fewest]
    order = rng.permutation(len(labels))
    if setup.split == "iid":
        return np.array_split(order, setup.parties)
    classes = int(labels.max()) + 1
    parts: list[list[Labels]] = [[] for _ in range(setup.parties)]
    for name in range(classes):
        members = order[labels[order] == name]
        if setup.split == "dirichlet":
            shares = rng.dirichlet([CONCENTRATION] * setup.parties)
            pieces = np.split(members, (np.cumsum(shares)[:-1] * len(members)).astype(int))
            holders = range(setup.parties)
        else:
            holders = range(name % setup.parties, setup.parties, classes)
            pieces = np.array_split(members, len(holders))
        for holder, piece in zip(holders, pieces, strict=True):
            parts[holder].append(piece)
    found = [rng.permutation(np.concatenate(part)) for part in parts if part]
    return [rows for rows in found if len(rows) >= fewest]


def _set_aside(source: Source, rows: Labels, rng: np.random.Generator) -> Party:
    """Divide a party's rows by class into those it sends and those it keeps back."""
    rows, labels = rng.permutation(rows), source.labels
    kept = np.concatenate(
        [
            members[: round(HELD_OUT * len(members))]
            for members in (rows[labels[rows] == name] for name in np.unique(labels[rows]))
        ]
    )
    sent = rows[~np.isin(rows, kept)]
    return Party(source.table.take(pa.array(sent)), source.table.take(pa.array(kept)))


def _encode(party: Party, schema: Schema) -> Encoded:
    return Encoded(
        encode_rows(party.table, schema),
        encode_labels(party.table, schema).astype(np.int64),
        encode_rows(party.kept_back, schema),
        encode_labels(party.kept_back, schema).astype(np.int64),
    )


def scored_parties(encoded: Sequence[Encoded], *, own_tests: bool, classes: int) -> list[Scored]:
    """Return the parties that are scored, each with the rows it is scored on.

    At real sites these are the site's own. Dealt rows are all alike, so that every party is scored on those
    that all have kept back.
    """
    if own_tests:
        found = [(i, party.test, party.test_labels) for i, party in enumerate(encoded)]
        return [each for each in found if len(np.unique(each[2])) == classes][:SCORED]
    test = np.vstack([party.test for party in encoded])
    labels = np.concatenate([party.test_labels for party in encoded])
    return [(index, test, labels) for index in range(min(SCORED, len(encoded)))]


def baselines(
    encoded: Sequence[Encoded], scored: Sequence[Scored], model: Model, classes: int, seed: int
) -> dict[str, Way]:
    """Return the other ways to learn from encoded rows; nothing is fitted before one is called."""
    parts = [(party.rows, party.labels) for party in encoded]
    pooled = np.vstack([rows for rows, _ in parts]), np.concatenate([labels for _, labels in parts])

    def alone(index: int, test: Matrix) -> NDArray[Any]:
        return _of_model(model, parts[index], classes, test)

    def alone_tuned(index: int, test: Matrix) -> NDArray[Any]:
        if len(np.unique(parts[index][1])) < 2:
            return np.full((len(test), classes), 1 / classes)
        return rivals.tuned_logistic(parts[index], classes, test, seed=seed)

    of_all = partial(for_all, scored)
    return {
        "alone": alone,
        "alone, tuned logistic": alone_tuned,
        "central": of_all(lambda test: _of_model(model, pooled, classes, test)),
        "closed form": of_all(lambda test: rivals.closed_form(parts, classes, test)),
        "central boosting": of_all(lambda test: rivals.central_boosting(parts, classes, test, seed=seed)),
        "federated bagging": of_all(lambda test: rivals.bagged_boosting(parts, classes, test, seed=seed)),
        "federated averaging": of_all(
            lambda test: rivals.federated_averaging(parts, classes, test, seed=seed)
        ),
    }


def for_all(scored: Sequence[Scored], predict: Callable[[Matrix], NDArray[Any]]) -> Way:
    """Return a way whose model is the same for every party: fitted once, for the test rows of all."""
    known: dict[int, NDArray[Any]] = {}

    def of_party(_: int, test: Matrix) -> NDArray[Any]:
        if not known:
            tests = {id(rows): rows for _, rows, _ in scored}
            found = predict(np.vstack(list(tests.values())))
            ends = np.cumsum([len(rows) for rows in tests.values()])[:-1]
            known.update(zip(tests, np.split(found, ends), strict=True))
        return known[id(test)]

    return of_party


def _of_model(model: Model, part: rivals.Part, classes: int, test: Matrix) -> NDArray[Any]:
    rows, labels = part
    present = np.unique(labels)
    found = np.zeros((len(test), classes))
    if len(present) < 2:
        found[:, present] = 1
        return found
    fitted = fit(model, rows, np.searchsorted(present, labels), len(present))
    found[:, present] = fitted.pipeline.predict_proba(test)
    return found


def mean_score(scored: Sequence[Scored], classes: int, way: Way) -> float:
    """Return the ROC-AUC in percent of ``way(party, rows)``, the mean over the scored parties."""
    return float(np.mean([_score(labels, way(index, test), classes) for index, test, labels in scored]))


def _score(labels: Labels, probabilities: NDArray[Any], classes: int) -> float:
    if classes == 2:
        return 100 * float(roc_auc_score(labels, probabilities[:, 1]))
    one_against_rest = [roc_auc_score(labels == name, probabilities[:, name]) for name in range(classes)]
    return 100 * float(np.mean(one_against_rest))


def _headline(result: RoundResult) -> float | None:
    headline = result.model.judgement["headline"]
    return 100 * headline["roc_auc"]["mean"] if headline else None


def _warns(signal: Signal | None, least: float) -> bool:
    return signal is None or signal.kept < least
