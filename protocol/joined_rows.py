"""Institutions that hold different columns of the same rows, as the terms say it (docs/adr/0085)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import FailFast, Field

from protocol.codec import Message
from protocol.limits import MAX_LATENT_DIM, MAX_PARTIES
from protocol.texts import Name, PartyName

if TYPE_CHECKING:
    from protocol.terms import Terms

ROW_KEYS: Final = "row_keys"
"""The array of an uplink that says which row is which."""
ROW_KEY_BYTES: Final = 16
"""Of a hash: two of a billion rows are the same with a probability of 2^-69."""


class JoinedRows(Message):
    """A group of institutions whose tables are put side by side, row by row."""

    row_key: Name
    """The column that names a row in each of their tables."""
    parties: Annotated[tuple[PartyName, ...], FailFast()] = Field(min_length=2, max_length=MAX_PARTIES)
    """Their blocks stand side by side in this order."""
    latent_dims: Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_LATENT_DIM)], ...], FailFast()] = Field(
        min_length=2, max_length=MAX_PARTIES
    )
    """How many numbers of a row each of them sends; together latent_dim."""
    labels: PartyName
    """The one of them whose labels are sent; the group goes by its name where the rows are aligned."""

    def latent_dim_of(self, party: str) -> int:
        """Return how many numbers of a row one of them sends."""
        return self.latent_dims[self.parties.index(party)]

    def block_of(self, party: str) -> slice:
        """Return which of the numbers of a joined row are of one of them."""
        place = self.parties.index(party)
        start = sum(self.latent_dims[:place])
        return slice(start, start + self.latent_dims[place])

    def others(self, party: str) -> list[str]:
        """Return the group without one of its parties, in its order."""
        return [each for each in self.parties if each != party]


def check_joined_rows(terms: Terms) -> None:
    """Raise `ValueError` unless the rows of each group can be joined and aligned under these terms."""
    for name, is_used in (
        ("sums", terms.sums is not None),
        ("anchor-predictions", terms.returns_anchor_predictions),
        ("own_maps", bool(terms.own_maps)),
        ("a least_latent_dim", terms.least_latent_dim is not None),
        ("model_groups", terms.model_groups is not None),
        ("a hold_out: the members of a group would keep different rows back", terms.hold_out > 0),
    ):
        if is_used:
            raise ValueError(f"joined_rows do not go with {name}")
    grouped: set[str] = set()
    for group in terms.joined_rows:
        _check_parties(group, terms)
        if taken := grouped & set(group.parties):
            raise ValueError(f"a party is in one group of joined_rows at most, {min(taken)} is in two")
        grouped |= set(group.parties)
        _check_columns(group, terms)
        _check_dimensions(group, terms)


def _check_parties(group: JoinedRows, terms: Terms) -> None:
    if len(set(group.parties)) != len(group.parties):
        raise ValueError("the parties of joined_rows must be distinct")
    awaited = set(terms.awaited_parties)
    for party in group.parties:
        if party not in awaited:
            raise ValueError(f"joined_rows are of parties that send rows, {party} is none")
    if group.labels not in group.parties:
        raise ValueError(f"the labels of joined_rows are of one of their parties, {group.labels} is none")


def _check_columns(group: JoinedRows, terms: Terms) -> None:
    """Raise unless each column is at one party of the group, and the row key is none of them."""
    schema = terms.table_schema
    names = [column.name for column in schema.columns]
    if group.row_key in (*names, *schema.label_column.columns):
        raise ValueError(f"the row_key {group.row_key} must be neither a column nor the label")
    for name in names:
        holders = [party for party in group.parties if name not in terms.absent_columns_of(party)]
        if len(holders) != 1:
            found = " and ".join(holders) or "none of them"
            raise ValueError(
                f"of the joined rows of {', '.join(group.parties)} each column is at one party, as"
                f" absent_columns say: {name} is at {found}"
            )


def _check_dimensions(group: JoinedRows, terms: Terms) -> None:
    if len(group.latent_dims) != len(group.parties):
        raise ValueError("joined_rows need one of latent_dims for each of their parties")
    if sum(group.latent_dims) != terms.latent_dim:
        raise ValueError(
            f"the latent_dims of {', '.join(group.parties)} must add up to the latent_dim, {terms.latent_dim}"
        )
    for party, latent_dim in zip(group.parties, group.latent_dims, strict=True):
        if latent_dim > (width := terms.schema_of(party).width):
            raise ValueError(
                f"the latent_dims of joined_rows must be at most the encoded features of each party: {party}"
                f" has {width}"
            )
