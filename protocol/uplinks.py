"""What an uplink has to be under its terms: the analyst asks before it takes a byte."""

from __future__ import annotations

from protocol.errors import DtypeMismatchError, ShapeMismatchError, TermsMismatchError
from protocol.messages import UPLINK_ARRAYS, UplinkManifest
from protocol.sums import SUMS, sent_numbers
from protocol.terms import Terms


def check_uplink(manifest: UplinkManifest, terms: Terms) -> None:
    """Raise unless the manifest's arrays are what the signed terms promise, and its dither at least that.

    The terms also promise that a late consumer sends no rows.

    Raises
    ------
    ShapeMismatchError, DtypeMismatchError, TermsMismatchError
    """
    if (dither := manifest.privacy.dither or 0) < terms.dither:
        raise TermsMismatchError(f"an uplink with a dither of {dither:g}, not {terms.dither:g} or more")
    if manifest.has_sums != (terms.sums is not None):
        sent = "sums" if manifest.has_sums else "rows"
        raise TermsMismatchError(f"an uplink of {sent}, not of {terms.uplink}")
    if manifest.has_sums:
        (sums,), expected_shape = manifest.arrays, (sent_numbers(terms),)
        if sums.shape != expected_shape:
            raise ShapeMismatchError(SUMS, expected_shape, sums.shape)
        return
    _check_joined(manifest, terms)
    rep, anchor_rep, labels = manifest.arrays[: len(UPLINK_ARRAYS)]
    if manifest.party in terms.late_consumers and rep.shape[0]:
        raise TermsMismatchError(f"an uplink with rows, though {manifest.party} is a late consumer")
    allowed, latent_dim = terms.latent_dims_of(manifest.party), rep.shape[1]
    if latent_dim not in allowed:
        wanted = f"{allowed[0]} to {allowed[-1]}" if len(allowed) > 1 else allowed[0]
        raise ShapeMismatchError("representation", ("rows", wanted), rep.shape)
    if anchor_rep.shape != (terms.anchor.rows, latent_dim):
        raise ShapeMismatchError("anchor representation", (terms.anchor.rows, latent_dim), anchor_rep.shape)
    label_dtype = terms.table_schema.label_column.wire_dtype
    for spec, expected in ((rep, terms.rep_dtype), (anchor_rep, terms.rep_dtype), (labels, label_dtype)):
        if spec.dtype != expected:
            raise DtypeMismatchError(spec.name, expected, spec.dtype)


def _check_joined(manifest: UplinkManifest, terms: Terms) -> None:
    """Raise unless row keys come with joined rows alone, and labels from the one that has them."""
    party, group = manifest.party, terms.group_of(manifest.party)
    if (manifest.row_keys is not None) != (group is not None):
        sent = "with row keys" if manifest.row_keys else "without row keys"
        joined = "are joined" if group else "are not joined"
        raise TermsMismatchError(f"an uplink {sent}, though the rows of {party} {joined}")
    if group is None:
        return
    if not manifest.rows:
        raise TermsMismatchError(f"an uplink without rows, though {party} has rows to join")
    if (manifest.labels.shape[0] > 0) != terms.has_labels(party):
        raise TermsMismatchError(
            f"an uplink of {party} with labels, or without, though {group.labels} has them"
        )
