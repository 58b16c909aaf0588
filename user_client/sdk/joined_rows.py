"""Rows of which other institutions hold the other columns: their keys, and what leaves of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from protocol.errors import InputError
from protocol.joined_rows import ROW_KEY_BYTES, ROW_KEYS, JoinedRows
from protocol.messages import LABELS
from protocol.row_keys import hashing_key
from protocol.terms import Terms
from user_client.custody.round_directory import RoundDirectory
from user_client.custody.scratch import Scratch
from user_client.errors import PartsNeededError
from user_client.sdk.anchor import stored_seed
from user_client.sdk.hold_out import HoldOut
from user_client.sdk.payload import Made, make_uplink
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.row_order import ordered
from user_client.sdk.terms import accepted_terms, own_party
from user_client.secret.expansion import Matrix64
from user_client.tables import EncodedTable, RowKeys


def own_group(directory: RoundDirectory) -> JoinedRows | None:
    """Return the group that our rows are joined in, under the terms we have signed; None if they are not."""
    return accepted_terms(directory).group_of(own_party(directory))


def require_whole_rows(group: JoinedRows | None, what: str) -> None:
    """Raise `PartsNeededError` if ``what`` would need columns of our rows that others of our group hold."""
    if group is not None:
        raise PartsNeededError(
            f"{what} needs whole rows, and each of {', '.join(group.parties)} holds some of their columns"
            " alone"
        )


@dataclass(frozen=True, repr=False)
class Joining:
    """How the rows of one table are joined with those of others.

    Attributes
    ----------
    group : JoinedRows
    keys : RowKeys
        To look at every part of the table.
    """

    group: JoinedRows
    keys: RowKeys

    @classmethod
    def of(cls, directory: RoundDirectory, options: PrivacyOptions) -> Self | None:
        """Return how our rows are joined under the terms we have signed; None if they are not.

        Raises `InputError` for options that would take rows out of the order of their keys, or keep back
        rows that the others send.
        """
        group = own_group(directory)
        if group is None:
            return None
        if options.permute_rows:
            raise InputError(
                "joined rows leave in the order of their hashes, which tells nothing: omit --permute-rows"
            )
        if options.hold_out:
            raise InputError(
                f"{', '.join(group.parties)} would keep different rows back, and neither could be joined:"
                " omit --hold-out"
            )
        terms = accepted_terms(directory)
        key = hashing_key(stored_seed(directory), terms.collaboration_id, group)
        return cls(group, RowKeys(key, group.row_key, terms.table_schema.missing))

    def made(
        self,
        terms: Terms,
        table: EncodedTable,
        kept: HoldOut,
        anchor: Matrix64,
        options: PrivacyOptions,
        scratch: Scratch,
        *,
        party: str,
        **how: Any,
    ) -> Made:
        """Return the uplink of a table as `make_uplink` does, in the order of the hashes and with them.

        Raises `InputError` without rows, and `RepeatedRowKeyError` if two rows have the same key.
        """
        if not len(table.rows):
            raise InputError(
                f"the table has no rows, and {', '.join(self.group.parties)} join theirs: there is no round"
                " without rows of each of them"
            )
        hashes = self.keys.hashes()
        order = np.argsort(hashes, kind="stable")
        arranged = replace(table, rows=ordered(table.rows, order, scratch), labels=table.labels[order])
        sends_labels = terms.has_labels(party)
        how |= {"party": party, "fits_alone": sends_labels}
        found = make_uplink(terms, arranged, kept, anchor, options, scratch, **how)
        leaving = np.frombuffer(hashes[order][found.leaves].tobytes(), np.uint8)
        others = [
            (name, array if sends_labels or name != LABELS else array[:0], dtype)
            for name, array, dtype in found.payload.others
        ]
        others.append((ROW_KEYS, leaving.reshape(-1, ROW_KEY_BYTES), "u1"))
        payload = replace(found.payload, others=tuple(others))
        leaves = np.zeros_like(found.leaves)
        leaves[order] = found.leaves
        size = sum(array.payload_bytes for array in payload.arrays)
        prepared = replace(found.prepared, arrays=payload.arrays, payload_bytes=size)
        return replace(found, payload=payload, leaves=leaves, prepared=prepared)
