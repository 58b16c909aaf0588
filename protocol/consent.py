"""What a person reads before signing terms: one text, the same from every implementation.

The words, their order and the spelling of numbers stand in docs/protocol.md, "Plain words". An acceptance
carries the digest of this text, so it is changed under a new number only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from protocol.messages import DTYPE_BYTES
from protocol.terms import Column, NumericColumn, Terms

VERSION: Final = 1
_ROUNDED_TO: Final = {
    "f2": "16-bit floats: about three digits",
    "f4": "32-bit floats: about seven digits",
    "f8": "64-bit floats: about sixteen digits",
    "i1": "8-bit integers with a scale for each column: to within 1/254 of the largest in the column",
}
_OUTSIDE: Final = {"refuse": "outside it refused", "clip": "outside it moved to the nearer end"}


def plain_words(terms: Terms) -> str:
    """Return what a person signs: what leaves, what comes back, to whom, and what to be warned of.

    Lines end in a line feed, the last one too.
    """
    return "".join(f"{line}\n" for line in _lines(terms))


def plain_words_digest(terms: Terms) -> bytes:
    """What an `Acceptance` carries of the text that was shown."""
    text = plain_words(terms).encode()
    return hashlib.sha256(b"odc/v1/plain-words\x00" + text).digest()


def _lines(terms: Terms) -> Iterator[str]:
    schema, latent_dim = terms.table_schema, terms.latent_dim
    row_bytes = latent_dim * DTYPE_BYTES[terms.rep_dtype]
    yield f"Terms in plain words, version {VERSION}"
    yield terms.title
    yield terms.purpose
    yield ""
    yield f"Parties: {', '.join(terms.parties)} (lead: {terms.lead})."
    yield f"Predicted: {schema.label_column.name}, one of {', '.join(schema.label_column.classes)}."
    yield ""
    yield "What leaves this institution, once:"
    yield (
        f"- each row as {latent_dim} numbers instead of its {schema.width} encoded features,"
        f" {row_bytes} bytes; the secret basis that makes them stays here;"
    )
    yield f"- the anchor under the same basis, {terms.anchor.rows * row_bytes} bytes;"
    yield f"- both rounded to {_ROUNDED_TO[terms.rep_dtype]};"
    yield "- the label of each row, as it is, and with it how many rows there are."
    yield from _what_comes_back(terms)
    yield ""
    yield from _warnings(terms)
    yield ""
    yield "Columns:"
    yield from map(_column, schema.columns)


def _what_comes_back(terms: Terms) -> Iterator[str]:
    if not terms.returns_anchor_predictions:
        yield (
            "What comes back: a change-of-basis matrix for this institution alone and one model for all"
            f" ({terms.model.kind})."
        )
        yield (
            "Who sees it: the analyst sees what leaves; other institutions see the model, and how many rows"
            " each institution sent."
        )
        return
    rows, classes = terms.anchor.rows, len(terms.table_schema.label_column.classes)
    yield (
        f"What comes back: what the model for all ({terms.model.kind}) says of each of the {rows} anchor"
        f" rows, {4 * classes * rows} bytes, for this institution alone; neither the model nor a"
        " change-of-basis matrix. A model of our own is trained on it here."
    )
    yield (
        "What is erased: rows are sent in random order under a perturbed basis; the basis is erased here"
        " right after the analyst's receipt, the anchor when our own model is trained (NRI-DC)."
    )
    yield (
        "Who sees it: the analyst sees what leaves; other institutions see how many rows each institution"
        " sent."
    )


def _warnings(terms: Terms) -> Iterator[str]:
    if terms.is_row_revealing:
        yield (
            f"Warning: row-revealing model: a model of the kind {terms.model.kind} carries training rows"
            " inside it. Every other institution can map them back, also yours, to all that the projection"
            " kept of them. Signing takes a consent of its own."
        )
    yield (
        "Warning: shared representation: the rows of all institutions are brought into one representation."
        " The analyst and one member together could rebuild the projected part of your rows;"
        " `odc prepare` measures how much that is. An analyst that has other rows of the same population"
        " could estimate it alone."
    )
    yield "Warning: no noise is added by these terms (no differential privacy)."
    if terms.anchor.traits.warning:
        yield f"Warning: {terms.anchor.traits.warning}"
    few = terms.anchor.traits.few_rows_per_feature * terms.table_schema.width
    if terms.returns_anchor_predictions and terms.anchor.rows < few:
        yield (
            f"Warning: {terms.anchor.rows} anchor rows are few to train our own model on: below {few} it may"
            " predict much worse than the model for all."
        )


def _column(column: Column) -> str:
    empty = "no empty fields"
    if isinstance(column, NumericColumn):
        if column.impute is not None:
            empty = f"empty counts as {_number(column.impute)}"
        bounds = f"from {_number(column.low)} to {_number(column.high)}, {_OUTSIDE[column.out_of_range]}"
        return f"- {column.name}: number {bounds}, {empty}"
    if column.impute is not None:
        empty = f"empty counts as {column.impute}"
    return f"- {column.name}: one of {', '.join(column.levels)}; {empty}"


def _number(value: float) -> str:
    """The fewest digits that read back as the same 64-bit float, never with an exponent."""
    text = f"{Decimal(repr(value)):f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
