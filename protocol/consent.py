"""What a person reads before signing terms: one text, the same from every implementation.

Words, order and the spelling of numbers are specified in docs/protocol.md, "Plain words". An acceptance
contains the digest of this text, so every change of the text needs a new version number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from protocol.alignment_terms import AutoAlignmentTerms
from protocol.consent_columns import column_in_words, warnings_of_columns
from protocol.consent_joined import (
    joined_rows_in_words,
    warnings_of_joined_rows,
    what_is_sent_of_joined_rows,
)
from protocol.consent_sums import warnings_of_sums, what_comes_of_the_total, what_is_summed
from protocol.identity import read_aloud
from protocol.labels import MultiLabel, NumberLabel, SurvivalLabel
from protocol.messages import DTYPE_BYTES
from protocol.model_terms import model_in_words, revealing_in_words, weighted_kinds
from protocol.own_maps import OWN_MAPS_IN_WORDS
from protocol.terms import Terms
from protocol.texts import decimal_text

VERSIONS: Final = {1: 2, 2: 3}
"""The version of the text for each `terms_schema`.

Every version of the software that reads these terms computes this text, and refuses an acceptance of another:
other words need a field in the terms that earlier versions refuse by name.
"""
_ROUNDED_TO: Final = {
    "f2": "16-bit floats (about three digits)",
    "f4": "32-bit floats (about seven digits)",
    "f8": "64-bit floats (about sixteen digits)",
    "i1": "8-bit integers (to within 1/254 of the largest value of the same dimension)",
}
_SHARED: Final = {
    1: (
        "shared representation: the analyst brings the rows of all institutions into one common"
        " representation. The analyst and one member together could rebuild what the projection keeps of your"
        " rows; `odc prepare` measures how much that is. An analyst that has other rows of the same"
        " population could estimate it alone."  # too weak, but signed: this text cannot change
    ),
    2: (
        "shared representation: the analyst brings the rows of all institutions into one common"
        " representation. The analyst and one member together know the secret basis. With it they can rebuild"
        " values of your rows, and whole rows where columns have few values. The analyst alone can recover"
        " some columns, recognise rows that it knows from elsewhere, and find the same person at two"
        " institutions. `odc prepare` can try some of this on your rows. Treat the projections as personal"
        " data."
    ),
}
_SENT_LABEL: Final = {
    "classes": "the label of each row, unchanged",
    "multilabel": "which of the labels each row has, unchanged",
    "number": "the number to predict of each row, rounded to a 32-bit float",
    "survival": "the time of each row, rounded to a 32-bit float, and whether it ended with the event",
}
_SEALED_BY: Final = {
    "mlkem1024-p384": "(ML-KEM-1024 with ECDH on P-384, and AES-256-GCM), not by the usual one.",
    "p256": (
        "(ECDH on P-256, and AES-256-GCM), not by the usual one. Whoever keeps a copy and can one day break"
        " P-256, as with a quantum computer, reads the anchor."
    ),
}


def plain_words(terms: Terms) -> str:
    """Return the text a person signs: what is sent, what comes back, who sees it, and the warnings.

    Every line ends in a line feed, the last one too.
    """
    return "".join(f"{line}\n" for line in _lines(terms))


def plain_words_digest(terms: Terms) -> bytes:
    """Return the digest of the text that was shown, which an `Acceptance` contains."""
    text = plain_words(terms).encode()
    return hashlib.sha256(b"odc/v1/plain-words\x00" + text).digest()


def _lines(terms: Terms) -> Iterator[str]:
    label = terms.table_schema.label_column
    yield f"Terms in plain words, version {VERSIONS[terms.terms_schema]}"
    yield terms.title
    yield terms.purpose
    yield ""
    yield f"Institutions: {', '.join(terms.parties)}. Lead institution: {terms.lead}."
    yield from _late_consumers(terms)
    yield from _absent_columns(terms)
    yield from joined_rows_in_words(terms)
    if terms.analyst_key is not None:
        key = read_aloud(bytes.fromhex(terms.analyst_key))
        yield f"The analyst is the one with the key {key}, and no other."
    if terms.replaces is not None:
        yield f"These terms replace those of the collaboration {terms.replaces}, which has ended with that."
    if terms.sealing_suite is not None:
        yield (
            f"The anchor's seed is sealed for each institution by the suite {terms.sealing_suite}"
            f" {_SEALED_BY[terms.sealing_suite]}"
        )
    if isinstance(label, SurvivalLabel):
        yield (
            f"The model predicts survival: the column {label.name} says how long a row was observed, and the"
            f" column {label.event} whether that ended with the event ({label.seen}) or not"
            f" ({label.censored})."
            f" A time beyond {decimal_text(label.horizon)} counts as one without the event. The answer is the"
            " probability that the event comes after each of these times:"
            f" {', '.join(map(decimal_text, label.times))}."
        )
    elif isinstance(label, NumberLabel):
        yield (
            f"The model predicts the column {label.name}, a number from {decimal_text(label.low)} to"
            f" {decimal_text(label.high)}. A table with a number outside is refused."
        )
    elif isinstance(label, MultiLabel):
        told = "; ".join(f"{one.name} ({one.present}, or else {one.absent})" for one in label.labels)
        yield f"The model predicts several labels of a row, the probability of each by itself: {told}."
    else:
        yield f"The model predicts the column {label.name}, which is one of: {', '.join(label.classes)}."
    yield ""
    if terms.sums is None:
        yield from _what_is_sent(terms)
    else:
        yield from what_is_summed(terms, terms.sums)
        yield from _evaluation(terms)
    yield ""
    yield from _what_comes_back(terms) if terms.sums is None else what_comes_of_the_total(terms, terms.sums)
    yield from _retention(terms)
    yield ""
    yield from (f"Warning: {warning}" for warning in warnings_of(terms))
    yield ""
    yield "Columns:"
    yield from map(column_in_words, terms.table_schema.columns)


def _late_consumers(terms: Terms) -> Iterator[str]:
    if terms.late_consumers:
        returned = (
            "what the model predicts for the anchor rows"
            if terms.returns_anchor_predictions
            else "the model and a change-of-basis matrix of its own"
        )
        yield (
            f"Late consumers: {', '.join(terms.late_consumers)}. They send no rows and no labels, and the"
            " round does not wait for them. After its release and before its end, each of them may send the"
            f" projection of the anchor and gets {returned}; nobody is asked again. Until the end, the"
            " analyst keeps what all institutions have sent. Like every member, a late consumer knows the"
            " anchor: together with the analyst it knows the secret basis of every institution."
        )


def _absent_columns(terms: Terms) -> Iterator[str]:
    alone = [each for each in terms.absent_columns if terms.group_of(each.party) is None]
    if alone:
        lacking = "; ".join(f"{each.party} lacks {', '.join(each.columns)}" for each in alone)
        yield (
            f"Columns that institutions lack: {lacking}. Such an institution takes part with its other"
            " columns: these columns of its table are not read, also where it has them. Its secret basis"
            " is zero on their encoded features, of its rows and of the anchor. The model predicts there"
            " from the other columns alone."
        )


def _what_is_sent(terms: Terms) -> Iterator[str]:
    number_bytes, least = DTYPE_BYTES[terms.rep_dtype], terms.least_latent_dim
    dims = [terms.latent_dim] if least is None else [least, terms.latent_dim]
    numbers = " to ".join(map(str, dims))
    row_bytes = " to ".join(str(dim * number_bytes) for dim in dims)
    anchor_bytes = " to ".join(str(terms.anchor.rows * dim * number_bytes) for dim in dims)
    yield "This institution sends to the analyst, once:"
    yield (
        f"- the projection of each row: {numbers} numbers ({row_bytes} bytes) in place of its"
        f" {terms.table_schema.width} encoded features, computed with a secret basis that stays here;"
    )
    yield (
        f"- the projection of the anchor with the same basis ({anchor_bytes} bytes); the"
        " anchor is a matrix that the institutions share and the analyst does not receive;"
    )
    yield f"- {_SENT_LABEL[terms.task]}, and with it the number of rows."
    yield from what_is_sent_of_joined_rows(terms)
    if least is not None:
        yield (
            "Each institution chooses by itself how many numbers of a row it sends, and every institution"
            f" reads the choice in the report. One that chooses nothing sends {terms.latent_dim}, or as many"
            " as it has encoded features. Fewer numbers tell the analyst less of a row and teach the model"
            " less, and the institution may be predicted for worse."
        )
    yield from _own_maps(terms)
    yield f"Projections are rounded to {_ROUNDED_TO[terms.rep_dtype]}."
    if terms.dither:
        yield (
            "Before that, noise is added to the projections of the rows: along every direction, its standard"
            f" deviation is at least {decimal_text(terms.dither)} times that of the projections."
        )
    if terms.least_signal is not None:
        axes = f"the {terms.latent_dim} leading axes of its rows"
        if least is not None:
            axes = "as many leading axes of its rows as it sends numbers of each"
        yield (
            "Before it sends, this institution measures how much of its own score of each row lies along"
            f" {axes}, and asks a person if that is less than"
            f" {decimal_text(terms.least_signal)} (R squared)."
        )
    yield from _exposure(terms)
    yield from _evaluation(terms)


def _own_maps(terms: Terms) -> Iterator[str]:
    if terms.own_maps:
        kinds = "; ".join(f"{kind} ({OWN_MAPS_IN_WORDS[kind]})" for kind in terms.own_maps)
        yield (
            "Each institution may map its rows, and the anchor, by a non-linear function of its own before"
            f" the projection: {kinds}. The function stays here, as the basis does, and nobody is told which"
            " institution has which. One that chooses nothing projects its encoded features as they are."
        )


def _evaluation(terms: Terms) -> Iterator[str]:
    if terms.hold_out:
        yield (
            f"This institution keeps {decimal_text(terms.hold_out)} of its rows back, chosen at random. It"
            " evaluates the model on them, beside a model of its own rows alone."
        )
    if terms.returns_scores:
        yield (
            "It may send the result back: the two scores, the interval of their difference and the number of"
            " rows. The analyst and every institution read it."
        )


def _exposure(terms: Terms) -> Iterator[str]:
    if terms.exposure is None:
        return
    exact, columns = terms.exposure.max_exact_rows, terms.exposure.max_found_columns
    bits, limits = terms.exposure.min_hidden_bits, []
    if exact is not None:
        limits.append(f"more than {decimal_text(exact)} of its rows can be rebuilt in every column")
    if columns is not None:
        limits.append(f"more than {columns} columns are found without the secret basis")
    if bits is not None:
        limits.append(f"fewer than {decimal_text(bits)} bits of a row stay here")
    if limits:
        yield (
            "Before it sends, this institution attacks its own rows. It does not send if"
            f" {', or '.join(limits)}."
        )


def _what_comes_back(terms: Terms) -> Iterator[str]:
    if not terms.returns_anchor_predictions:
        whose = "all institutions" if terms.model_groups is None else "each group of institutions"
        yield (
            f"The analyst sends back: one model for {whose} ({model_in_words(terms.model)}), and for"
            " this institution alone the change-of-basis matrix that it needs to use the model."
        )
        yield from _class_weights(terms)
        yield from _model_privacy(terms)
        yield from _chosen_alignment(terms)
        yield from _model_groups(terms)
        yield (
            "Who sees what: the analyst sees everything that this institution sends. Other institutions see"
            " the model, and how many rows each institution sent."
        )
        return
    rows, classes = terms.anchor.rows, terms.table_schema.label_column.outputs
    yield (
        "The analyst sends back, for this institution alone: what the model for all institutions"
        f" ({model_in_words(terms.model)}) predicts for each of the {rows} anchor rows"
        f" ({4 * classes * rows} bytes). It sends neither the model nor a change-of-basis matrix. From these"
        " predictions this institution trains a model of its own."
    )
    yield from _class_weights(terms)
    yield from _model_privacy(terms)
    yield from _chosen_alignment(terms)
    yield (
        "Precautions (NRI-DC): this institution sends its rows in random order, and computes the basis from"
        " perturbed rows. It erases the basis right after the analyst's receipt, and the anchor once its own"
        " model is trained."
    )
    yield (
        "Who sees what: the analyst sees everything that this institution sends. Other institutions see how"
        " many rows each institution sent."
    )


def _class_weights(terms: Terms) -> Iterator[str]:
    if kinds := weighted_kinds(terms.model):
        yield (
            f"Class weights: a model of the kind {' or '.join(kinds)} is trained so that every class counts"
            " the same, however few rows it has. Its probabilities are those of rows with equally many of"
            " every class: for a rare class they are higher than its share of the rows."
        )


def _model_privacy(terms: Terms) -> Iterator[str]:
    if terms.model_privacy is not None:
        epsilon, delta = decimal_text(terms.model_privacy.epsilon), decimal_text(terms.model_privacy.delta)
        yield (
            f"The model is trained with noise: it is differentially private with epsilon {epsilon} and delta"
            f" {delta}. This bounds what anybody can learn from the model about any one projected row and its"
            " label, all bases and the alignment being given. It does not protect the row from the analyst."
        )


def _chosen_alignment(terms: Terms) -> Iterator[str]:
    if isinstance(terms.alignment, AutoAlignmentTerms):
        yield (
            "The analyst tries several ways to bring the rows into the common representation"
            f" ({', '.join(terms.alignment.candidates)}). It takes the one with which a model predicts best"
            " on rows that did not train it. Every institution reads the mean score of each."
        )


def _model_groups(terms: Terms) -> Iterator[str]:
    if (groups := terms.model_groups) is not None:
        yield (
            "Groups: the analyst puts institutions into groups in which the shares of the classes of any two"
            f" differ by at most {decimal_text(groups.largest_distance)} in all (total variation). A group of"
            f" at least {groups.least_parties} institutions gets a model that was trained on the rows of the"
            " group alone. All others, and a group with too few rows of a class, get one that was trained on"
            " the rows of all. Every institution reads which groups have a model of their own."
        )


def _retention(terms: Terms) -> Iterator[str]:
    if (days := terms.retention_days) is not None:
        yield (
            f"How long: {days} {'day' if days == 1 else 'days'} after the model is released, or without a"
            " release after the last institution has sent, the analyst ends the round and erases what it was"
            " sent and what it sends back. Its records of the round stay, and no institution can check that"
            " the rest is erased."
        )


def warnings_of(terms: Terms) -> Iterator[str]:
    """Yield what the plain words warn of, one sentence or more each."""
    if terms.is_row_revealing:
        yield (
            f"row-revealing model: a model of the kind {revealing_in_words(terms.model)} contains training"
            " rows. From it every other institution can rebuild what the projection keeps of these rows,"
            " including yours. Signing these terms needs a separate consent."
        )
    if terms.sums is not None:
        yield from warnings_of_sums(terms, terms.sums)
        yield from warnings_of_columns(terms)
        return
    yield _SHARED[terms.terms_schema]
    if terms.task == "multilabel":
        yield (
            "several labels: all labels of a row together may be those of one person alone. An analyst that"
            " has them from elsewhere recognises the row."
        )
    elif terms.task != "classes":
        yield (
            "exact labels: a number or a time may be known of one person alone. An analyst that has it from"
            " elsewhere recognises the row."
        )
    yield "no differential privacy: " + (
        "the noise makes attacks harder and guarantees nothing about a row."
        if terms.dither
        else "these terms do not require noise to be added to anything that is sent."
    )
    if terms.model_groups is not None:
        yield (
            "models of groups: the model of a small group is made of the rows of few institutions. In a group"
            " of two, each can tell from the model more of the other's rows than from a model of all, and"
            " knows about which shares of the classes the other has."
        )
    if terms.anchor.traits.warning:
        yield terms.anchor.traits.warning
    yield from warnings_of_columns(terms)
    yield from _warnings_of_absent_columns(terms)
    yield from warnings_of_joined_rows(terms)
    if terms.own_maps:
        yield (
            "non-linear maps: what they have in common is fitted on the anchor's rows, and holds for rows"
            " like these. The model may predict worse than with linear maps, for every institution. Such a"
            " map hides no row: rows that are alike stay alike, and whoever has the anchor can learn from its"
            " projection how to rebuild rows. `odc prepare` tries that."
        )
    if terms.terms_schema >= 2 and terms.latent_dim == terms.table_schema.width:
        yield (
            "nothing is projected away: each row becomes as many numbers as it has encoded features, so that"
            " whoever knows the secret basis knows the row."
        )
    few = terms.anchor.traits.few_rows_per_feature * terms.table_schema.width
    if terms.returns_anchor_predictions and terms.anchor.rows < few:
        yield (
            f"few anchor rows: this institution's own model is trained on {terms.anchor.rows} anchor rows."
            f" With fewer than {few} it may predict much worse than the model for all institutions."
        )


def _warnings_of_absent_columns(terms: Terms) -> Iterator[str]:
    if not terms.absent_columns:
        return
    yield (
        "approximate alignment: the common representation is exact where the secret bases of all institutions"
        " span the same space, and an institution that lacks columns cannot have the same space as the"
        " others. Its rows may teach the model less, and it may be predicted for worse. The report says how"
        " far from the others each such institution stays."
    )
    bare = [
        each.party
        for each in terms.absent_columns
        if terms.schema_of(each.party).width
        == terms.latent_dims_of(each.party)[-1]
        < terms.table_schema.width
    ]
    if bare:
        yield (
            f"nothing is projected away at {', '.join(bare)}: each row becomes as many numbers as it has"
            " encoded features without the columns that are lacking, so that whoever knows the secret basis"
            " knows the row."
        )
