"""What people sign about rows that are joined: by which column, what the analyst learns, what members can."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.joined_rows import JoinedRows
from protocol.terms import Terms


def joined_rows_in_words(terms: Terms) -> Iterator[str]:
    """Yield a line for each group."""
    for group in terms.joined_rows:
        yield (
            f"Joined rows: {', '.join(group.parties)} hold different columns of the same rows, which the"
            f" column {group.row_key} names: {_held(terms, group)}. What an institution does not hold of them"
            " is not read, also where its table has it. Each of them sends a keyed hash of the column"
            f" {group.row_key} with each row, and its rows in the order of the hashes. The analyst puts the"
            " rows side by side that all of them have, and trains on these alone. Of a row they send"
            f" {_numbers(group)}; the labels are those of {group.labels} alone. The analyst learns which rows"
            " these tables have in common, and every institution reads how many. Whoever of them predicts for"
            " a row needs a part from each other of them, with the hash of the row and"
            f" {terms.latent_dim} numbers."
        )


def what_is_sent_of_joined_rows(terms: Terms) -> Iterator[str]:
    """Yield what corrects the lines of what an institution sends."""
    if terms.joined_rows:
        yield (
            "Of joined rows an institution sends only what stands above: as many numbers of a row, made of"
            " the columns that it holds, and the labels if they are its own."
        )


def warnings_of_joined_rows(terms: Terms) -> Iterator[str]:
    """Yield what the plain words warn of."""
    if terms.joined_rows:
        names = ", ".join(dict.fromkeys(group.row_key for group in terms.joined_rows))
        yield (
            "joined rows: every institution has the key of the hashes. The analyst and one of them together"
            f" can try whom a row is about, by hashing every {names} that may be, and so can whoever gets a"
            " part. The analyst alone cannot; it sees that a row is in several tables."
        )


def _held(terms: Terms, group: JoinedRows) -> str:
    return "; ".join(
        f"{party} all but {', '.join(terms.absent_columns_of(party))}" for party in group.parties
    )


def _numbers(group: JoinedRows) -> str:
    parts = zip(group.parties, group.latent_dims, strict=True)
    return ", ".join(f"{party} {count}" for party, count in parts)
