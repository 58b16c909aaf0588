"""The one uplink: prepare it (nothing is sent), then send it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.codec import digest
from protocol.errors import DifferentUplinkError, InputError
from protocol.messages import Receipt, UplinkManifest
from protocol.row_bounds import RowBounds
from protocol.terms import Terms
from runtime.files import erase
from user_client.custody import kept_uplinks
from user_client.custody.round_directory import (
    BASIS_FILE,
    BEGUN_FILE,
    MANIFEST_FILE,
    MASK_KEY_FILE,
    PAYLOAD_FILE,
    PREPARED_FILE,
    RoundDirectory,
)
from user_client.custody.scratch import Float, Scratch
from user_client.errors import NotPreparedError, PolicyError, SignalLossError
from user_client.sdk.anchor import open_anchor
from user_client.sdk.desk import ATTACK_LEVELS, AttackLevel, Exposed, level_of
from user_client.sdk.forgetting import forget_if_required, is_uplink
from user_client.sdk.hold_out import keep_back
from user_client.sdk.joined_rows import Joining
from user_client.sdk.ledger_check import follow_ledger, is_entered
from user_client.sdk.own_map import OwnMap, digest_of_map, packed, unpacked
from user_client.sdk.payload import make_uplink
from user_client.sdk.policy import DITHERS, Policy, policy_under
from user_client.sdk.prepared import Prepared, prepared_before, store_prepared
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.receipt import is_asked_for_again, store_receipt, was_received
from user_client.sdk.releases import SeenRows
from user_client.sdk.session import Session
from user_client.sdk.sums import prepare_sums
from user_client.sdk.terms import accepted_terms, own_party, own_schema
from user_client.tables import beside, digest_of, encode_table, is_query
from user_client.transport.upload import Progress, send_uplink

AnyArray = NDArray[Any]


def prepare(
    session: Session,
    directory: RoundDirectory,
    data: Any,
    options: PrivacyOptions,
    *,
    threshold: float | None,
    level: AttackLevel,
) -> Prepared:
    """Encode a table, treat its rows, draw the secret basis and write the uplink to the state directory."""
    _check_arguments(options, threshold)
    with directory.exclusive(), ThreadPoolExecutor(1) as hashing:
        terms, own_map = accepted_terms(directory), digest_of_map(options.own_map)
        source = hashing.submit(_source_of, data, own_map)
        if is_query(data):  # which a database is not to answer twice at the same time
            source.result()
        policy = policy_under(terms, directory.home)
        if level == "none" and policy and policy.needs_attacks:
            level = "quick"
        earlier = _prepared_alike(directory, source.result, options)
        if earlier is not None and _measures(earlier, threshold, level=level) and _is_whole(directory):
            return earlier
        if was_received(session, directory):
            earlier = _prepared_alike(directory, source.result, options)  # the received one may be another
            if earlier is None:
                raise DifferentUplinkError(session.membership.party)
            return earlier
        return _prepare_anew(
            session,
            directory,
            terms,
            data,
            options,
            source=source.result,
            threshold=threshold,
            policy=policy,
            level=level,
        )


def _kept_as(terms: Terms) -> Float:
    """Return the number type of encoded rows on the disk: with no fewer digits than what leaves of them."""
    return np.float64 if terms.rep_dtype == "f8" else np.float32


def _source_of(data: Any, own_map: str) -> str:
    """Return what tells a table file, and the map of a digest, from others; empty for what is no file."""
    source = digest_of(data)
    return f"{source} {own_map}" if source and own_map else source


def _check_arguments(options: Any, threshold: Any) -> None:
    """Raise `InputError` for what is no option and no threshold."""
    if not isinstance(options, PrivacyOptions):
        raise InputError(
            f"options are PrivacyOptions, such as PrivacyOptions(dither=0.5), not {type(options).__name__}"
        )
    if threshold is None:
        return
    if not isinstance(threshold, int | float | np.floating):
        raise InputError(f"the threshold is a share above 0 and at most 1, got {threshold!r}")
    if not 0 < threshold <= 1:
        raise InputError(f"the threshold is a share above 0 and at most 1, got {threshold:g}")


def _prepare_anew(
    session: Session,
    directory: RoundDirectory,
    terms: Terms,
    data: Any,
    options: PrivacyOptions,
    *,
    source: Callable[[], str],
    threshold: float | None,
    policy: Policy | None,
    level: AttackLevel,
) -> Prepared:
    if terms.sums is not None:
        return prepare_sums(session, directory, terms, data, options, source=source)
    party = session.membership.party
    is_late = party in terms.late_consumers
    scratch = Scratch(directory.path)
    seen = SeenRows(directory.home, scratch, apart_from=directory.collaboration_id)
    # what rows are joined by is hashed while the table is read, with a key that comes with the anchor
    opened = open_anchor(session, directory) if terms.group_of(party) else None
    joining = Joining.of(directory, options)
    look = beside(seen.look, joining.keys.look) if joining else seen.look
    table = encode_table(
        data,
        terms.schema_of(party),
        partial(scratch.keep, dtype=_kept_as(terms)),
        needs_labels=not is_late,
        reads_labels=terms.has_labels(party),
        look=look,
    )
    anchor, commitment = opened or open_anchor(session, directory)
    share = terms.hold_out if options.hold_out is None else options.hold_out
    kept = keep_back(directory, table.digest, table.labels, share, table.task)
    how: dict[str, Any] = {"threshold": threshold, "level": level, "is_late": is_late}
    make = joining.made if joining else make_uplink
    made = make(terms, table, kept, anchor, options, scratch, party=party, **how)
    known: dict[str, Any] = {"overlaps": tuple(seen.overlaps()), "repeated_rows": seen.repeated_rows()}
    prepared = replace(made.prepared, source=source(), **known)
    if made.exposed is not None:
        prepared = replace(prepared, would_pass=_would_pass(policy, made.exposed, prepared))
    kept_uplinks.keep(directory)
    directory.remove(PREPARED_FILE, MANIFEST_FILE)  # until they are back, the other files count as unfinished
    bounds = RowBounds.of(terms, party, made.applied.record())
    with directory.writing(PAYLOAD_FILE) as file:
        specs = tuple(made.payload.write(file, bounds))
    directory.write_secret(BASIS_FILE, packed(made.treated.secret_basis, made.treated.own_map))
    manifest = UplinkManifest(
        collaboration_id=directory.collaboration_id,
        terms_digest=digest(terms),
        party=party,
        anchor_commitment=commitment,
        arrays=specs,
        privacy=made.applied.record(),
    )
    store_prepared(session, directory, prepared, manifest, kept, made.alone, seen, made.leaves)
    return prepared


def _would_pass(policy: Policy | None, exposed: Exposed, prepared: Prepared) -> str | None:
    """Return terms that our policy would allow, if it does not allow what was prepared."""
    if policy is None or not any(policy.violations(exposed.schema, prepared)):
        return None
    dithers = [dither for dither in DITHERS if dither > (prepared.privacy.dither or 0)]
    return policy.terms_that_pass(exposed, prepared, dithers)


def contribute(
    session: Session,
    directory: RoundDirectory,
    progress: Progress,
    *,
    accept_signal_loss: bool,
    confirm: Callable[[Prepared], None],
) -> Receipt:
    """Send what was prepared, and store the analyst's receipt; check the ledger before and after."""
    with directory.exclusive():
        manifest, signed = directory.load_signed(UplinkManifest)
        had_receipt = directory.holds(Receipt)
        if not had_receipt:
            _check_policy(directory)
            if not accept_signal_loss:
                _check_signal(directory)
            if not _is_whole(directory):
                error = NotPreparedError("the prepared uplink is incomplete or was changed")
                error.hint = "run `odc prepare TABLE` again"
                raise error
            if not directory.holds(BEGUN_FILE) and (prepared := prepared_before(directory)) is not None:
                confirm(prepared)
            manifest, signed = _naming_head(session, directory, manifest, signed)
            directory.write(BEGUN_FILE, b"")
            signed = session.signed_now(UplinkManifest, signed)
            store_receipt(session, directory, _sent(session, directory, signed, manifest, progress))
        try:
            if not is_entered(directory):
                follow_ledger(session, directory)
            if had_receipt and is_asked_for_again(session, directory):
                _send_again(session, directory, manifest, progress)
        finally:  # what must not stay is erased even if the analyst cannot be asked
            if manifest.has_sums:  # nothing is masked again, and without the key nobody takes the mask off
                erase(directory.path / MASK_KEY_FILE)
            forget_if_required(session, directory)
        return directory.load(Receipt)


def _naming_head(
    session: Session, directory: RoundDirectory, manifest: UplinkManifest, signed: bytes
) -> tuple[UplinkManifest, bytes]:
    """Check the ledger before anything leaves; name it in the manifest, unless that has begun to leave."""
    seen = follow_ledger(session, directory).seen
    if accepted_terms(directory).analyst_key is None or directory.holds(BEGUN_FILE):
        return manifest, signed
    directory.write(UplinkManifest, session.sign(manifest.model_copy(update={"seen": seen})))
    directory.mark_checked(MANIFEST_FILE, PAYLOAD_FILE)  # its arrays are the same
    return directory.load_signed(UplinkManifest)


def _sent(
    session: Session,
    directory: RoundDirectory,
    signed: bytes,
    manifest: UplinkManifest,
    progress: Progress,
) -> bytes:
    """Send what is prepared and return the receipt.

    Raises `DifferentUplinkError` if the analyst has completed one that was prepared before, which is then put
    back into its place.
    """
    try:
        return send_uplink(
            session.connection,
            directory.collaboration_id,
            signed,
            manifest,
            directory.path / PAYLOAD_FILE,
            progress=progress,
        )
    except DifferentUplinkError as error:
        if kept_uplinks.are_there(directory) and was_received(session, directory):
            error.hint = (
                "the analyst has received the uplink that was prepared before this one; its basis is back in"
                " place: go on with `odc receive`"
            )
        raise


def _send_again(
    session: Session, directory: RoundDirectory, manifest: UplinkManifest, progress: Progress
) -> None:
    """Send the bytes that our receipt is for once more; it stays as it is."""
    if not _is_whole(directory):
        error = NotPreparedError(
            "the analyst's copy of our uplink is damaged, and what we sent is not on this machine any more"
        )
        error.hint = (
            "tell the analyst's operator: a backup of the analyst's disk can help, or a new collaboration"
        )
        raise error
    follow_ledger(session, directory)  # who asks for the bytes again must be who has the receipt's key
    # signed anew: our certificate of then may have ended, and the manifest is the same
    _sent(session, directory, session.sign(manifest), manifest, progress)


def _is_whole(directory: RoundDirectory) -> bool:
    """Return whether the payload on the disk has the digests of its manifest.

    A payload that this process has written or checked is hashed again only if its file has changed since.
    """
    manifest = directory.find(UplinkManifest)
    if manifest is None or not directory.holds(PAYLOAD_FILE):
        return False
    if not directory.was_checked(MANIFEST_FILE, PAYLOAD_FILE):
        with (directory.path / PAYLOAD_FILE).open("rb") as file:
            if not is_uplink(file, manifest):
                return False
        directory.mark_checked(MANIFEST_FILE, PAYLOAD_FILE)
    return True


def _check_signal(directory: RoundDirectory) -> None:
    """Raise `SignalLossError` if the leading axes hold less of the own score than the terms ask for."""
    least, prepared = accepted_terms(directory).least_signal, prepared_before(directory)
    if least is None:
        return
    if prepared is None:
        raise _unread("the terms ask for what `odc prepare` has found, and that cannot be read")
    if prepared.signal is None:
        return
    if prepared.signal.kept < least:
        error = SignalLossError(prepared.signal.kept, least)
        if prepared.latent_dim < (prepared.most_latent_dim or 0):
            error.hint = (
                f"run `odc prepare TABLE --latent-dim N` with N up to {prepared.most_latent_dim}, or send"
                " anyway with --accept-signal-loss"
            )
        raise error


def _check_policy(directory: RoundDirectory) -> None:
    """Raise `PolicyError` if our policy, or the terms, do not allow what was prepared."""
    policy, prepared = policy_under(accepted_terms(directory), directory.home), prepared_before(directory)
    if policy is None:
        return
    if prepared is None:  # what was found is lost, or stored by another version
        raise _unread("a policy needs what `odc prepare` has found, and that cannot be read")
    if found := policy.violations_under(accepted_terms(directory), own_party(directory), prepared):
        raise PolicyError(found, prepared.would_pass)


def _unread(text: str) -> NotPreparedError:
    error = NotPreparedError(text)
    error.hint = "run `odc prepare TABLE` again"
    return error


def stored_basis(directory: RoundDirectory) -> NDArray[np.float64] | None:
    """Return the secret basis (m, l), with a map (D, l), or None if it is not on this machine any more."""
    if not directory.holds(BASIS_FILE):
        return None
    return unpacked(directory.read_secret(BASIS_FILE))[0]


def stored_own_map(directory: RoundDirectory) -> OwnMap | None:
    """Return the map that comes before the stored basis; None if rows are projected as they are."""
    if not directory.holds(BASIS_FILE):
        return None
    file = unpacked(directory.read_secret(BASIS_FILE))[1]
    return None if file is None else OwnMap(file, own_schema(directory).width)


def _prepared_alike(
    directory: RoundDirectory, source: Callable[[], str], options: PrivacyOptions
) -> Prepared | None:
    """Return what was prepared last if it was of the same table file with the same options, else None."""
    earlier = prepared_before(directory)
    if earlier is None or not earlier.source or earlier.options != options:
        return None
    return earlier if earlier.source == source() else None


def _measures(earlier: Prepared, threshold: float | None, *, level: AttackLevel) -> bool:
    """Return whether what is asked for was measured already.

    It cannot be measured later: neither the noise nor the noisy rows are stored.
    """
    if earlier.rows == 0 or earlier.uplink == "sums":
        return True
    if ATTACK_LEVELS.index(level_of(earlier.attacks)) < ATTACK_LEVELS.index(level):
        return False
    if threshold is None:
        return True
    return earlier.threshold is not None and earlier.threshold.threshold == threshold
