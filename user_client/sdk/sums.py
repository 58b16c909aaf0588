"""An uplink of sums: computed over all rows, turned, masked and written to the state directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metering.formulas import sums_uplink
from protocol.arrays import little_endian, raw_bytes, specify
from protocol.codec import digest
from protocol.errors import InputError, SealBrokenError
from protocol.fixed_point import to_fixed_point
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import PrivacyRecord, UplinkManifest
from protocol.sums import SUMS, exponent_of, is_by_class
from protocol.sums_noise import bits_of
from protocol.terms import Terms
from user_client.custody.keystream import KeyStream
from user_client.custody.masks import MaskKey
from user_client.custody.round_directory import (
    BEGUN_FILE,
    FEATURES_FILE,
    MANIFEST_FILE,
    MASK_KEY_FILE,
    PAYLOAD_FILE,
    PREPARED_FILE,
    RoundDirectory,
)
from user_client.custody.scratch import Scratch
from user_client.errors import MaskedBeforeError, NotPreparedError
from user_client.rows import Rows
from user_client.sdk.anchor import open_seed
from user_client.sdk.hold_out import described, fit_alone, keep_back
from user_client.sdk.prepared import NoiseOfSums, Prepared, PreparedArray, store_prepared
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.releases import SeenRows
from user_client.sdk.session import Session
from user_client.sdk.sums_limits import check_rows, leaving_of
from user_client.secret.expansion import ByteSource, Matrix64
from user_client.secret.feature_map import FeatureMap
from user_client.secret.private_sums import private_sums
from user_client.secret.sums import add_masks, extended_sums, sums_by_class
from user_client.tables import encode_table


def prepare_sums(
    session: Session,
    directory: RoundDirectory,
    terms: Terms,
    data: Any,
    options: PrivacyOptions,
    *,
    source: Callable[[], str],
) -> Prepared:
    """Sum over the rows of a table, mask the sums and write them to the state directory.

    A mask covers one vector: two under the same mask would show their difference. So once `odc contribute`
    has begun to send, no other table is prepared.

    Raises
    ------
    MaskedBeforeError
        If sums under this mask have begun to leave.
    InputError
        If an option is about rows that leave, or there are too few or too many rows.
    """
    sums = terms.sums
    if sums is None:
        raise ValueError("these terms ask for rows")
    if options != PrivacyOptions(hold_out=options.hold_out):
        raise InputError(
            "no row leaves under sums: of the options on rows, only the share to keep back is used"
        )
    if directory.holds(BEGUN_FILE):
        raise MaskedBeforeError
    scratch = Scratch(directory.path)
    seen = SeenRows(directory.home, scratch, apart_from=directory.collaboration_id)
    table = encode_table(data, terms.table_schema, scratch.keep, look=seen.look)
    share = terms.hold_out if options.hold_out is None else options.hold_out
    kept = keep_back(directory, table.digest, table.labels, share, terms.task)
    leaves = kept.leaves(len(table.rows))
    leaving, their_labels = table.rows.where(leaves), table.labels[leaves]
    check_rows(terms, sums, leaving_of(their_labels, terms, 0.0))
    seed, anchor = open_seed(session, directory)
    features = feature_map(terms, seed)
    found, noise = summed(terms, leaving, their_labels, features)
    covered = masked(found, _mask_key(directory), terms, session.membership.party, seed, anchor.mask_keys)
    array = little_endian(covered, "u8")
    manifest = UplinkManifest(
        collaboration_id=directory.collaboration_id,
        terms_digest=digest(terms),
        party=session.membership.party,
        anchor_commitment=anchor.commitment,
        arrays=(specify(SUMS, array, "u8", DEFAULT_CHUNK_BYTES),),
    )
    alone = fit_alone(terms, leaving, their_labels)
    prepared = replace(
        _summary(terms, manifest, options, rows=len(leaving), source=source()),
        sums_noise=noise,
        table_rows=len(table.rows),
        held_out_rows=len(kept),
        alone=described(terms, alone),
        overlaps=tuple(seen.overlaps()),
        repeated_rows=seen.repeated_rows(),
    )
    directory.remove(PREPARED_FILE, MANIFEST_FILE)  # until they are back, the other files count as unfinished
    directory.write(PAYLOAD_FILE, raw_bytes(array))
    directory.write_secret(FEATURES_FILE, features.to_bytes())
    store_prepared(session, directory, prepared, manifest, kept, alone, seen, leaves)
    return prepared


def summed(
    terms: Terms,
    rows: Rows | Matrix64,
    labels: NDArray[Any],
    features: FeatureMap,
    source: ByteSource | None = None,
) -> tuple[NDArray[np.uint64], NoiseOfSums | None]:
    """Return the sums over the rows as they are before the masks, and what noise is in them.

    The noise comes from a key stream that nobody can repeat; only a simulation names another source.
    """
    sums, label, parties = terms.sums, terms.table_schema.label_column, len(terms.parties)
    if sums is None:
        raise ValueError("these terms ask for rows")
    if is_by_class(terms):
        matrices = sums_by_class(rows, labels, features, label.outputs)
        return to_fixed_point(matrices, exponent_of(sums, terms.table_schema, parties)), None
    if sums.noise is None:
        matrix = extended_sums(rows, labels, features, label.outputs)
        return to_fixed_point(matrix, exponent_of(sums, terms.table_schema, parties)), None
    share = sums.noise.share(label, parties)
    found = private_sums(
        rows,
        labels,
        features,
        label.outputs,
        clip=sums.noise.clip,
        bits=bits_of(sums.max_rows * parties),
        deviation=share,
        source=source or KeyStream.fresh("odc/v1/sums/noise").read,
    )
    return found.numbers.view(np.uint64), NoiseOfSums(share, found.clipped_rows)


def masked(
    sums: NDArray[np.uint64],
    key: MaskKey,
    terms: Terms,
    party: str,
    seed: bytes,
    mask_keys: Sequence[bytes],
) -> NDArray[np.uint64]:
    """Return the sums under the masks that we share with each other institution.

    Raises `SealBrokenError`, with the name of an institution whose key is none.
    """
    own, streams = terms.parties.index(party), {}
    for place, other in enumerate(mask_keys):
        if place == own:
            continue
        try:
            streams[place] = key.stream(other, seed, pair_context(terms, own, place))
        except ValueError:
            raise SealBrokenError(f"what {terms.parties[place]} has signed is no key for masks") from None
    return add_masks(
        sums,
        (stream for place, stream in streams.items() if own < place),
        (stream for place, stream in streams.items() if place < own),
    )


def pair_context(terms: Terms, one: int, other: int) -> bytes:
    """Return what the stream of two institutions is for, by their places in the terms."""
    places = b"".join(place.to_bytes(4, "big") for place in sorted((one, other)))
    return terms.collaboration_id.encode() + digest(terms) + places


def feature_map(terms: Terms, seed: bytes) -> FeatureMap:
    """Return the map that every institution draws from the sealed seed."""
    if terms.sums is None:
        raise ValueError("these terms ask for rows")
    source = KeyStream(seed, "odc/v1/sums/features").read
    width = terms.table_schema.width
    return FeatureMap.draw(source, width, terms.sums.random_features, terms.sums.kernel_width)


def stored_feature_map(directory: RoundDirectory) -> FeatureMap:
    """Return the map of the prepared sums; raises `NotPreparedError` if it is not here any more."""
    if not directory.holds(FEATURES_FILE):
        raise NotPreparedError("the secret coordinates of the sums are not on this machine any more")
    return FeatureMap.from_bytes(directory.read_secret(FEATURES_FILE))


def _mask_key(directory: RoundDirectory) -> MaskKey:
    if not directory.holds(MASK_KEY_FILE):
        error = NotPreparedError("the key of our masks was erased from this machine: no sum can be masked")
        error.hint = "the key cannot be recovered; take part in another collaboration"
        raise error
    return MaskKey.from_bytes(directory.read_secret(MASK_KEY_FILE))


def _summary(
    terms: Terms, manifest: UplinkManifest, options: PrivacyOptions, *, rows: int, source: str
) -> Prepared:
    (spec,) = manifest.arrays
    return Prepared(
        rows=rows,
        table_rows=rows,
        features=terms.table_schema.width,
        latent_dim=terms.latent_dim,
        payload_bytes=spec.payload_bytes,
        formula_bytes=sums_uplink(
            features=terms.latent_dim,
            outputs=terms.table_schema.label_column.outputs,
            by_class=is_by_class(terms),
        ),
        arrays=(PreparedArray(spec.name, spec.dtype, spec.shape, spec.payload_bytes),),
        hidden_share=None,
        collusion_error=None,
        threshold=None,
        signal=None,
        singular_values=[],
        noise_sigma=None,
        privacy=PrivacyRecord(),
        options=options,
        source=source,
        uplink="sums",
        members_get_total=terms.sums is not None and terms.sums.cohort,
    )
