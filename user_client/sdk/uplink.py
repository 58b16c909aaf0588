"""The one uplink: prepare it (nothing is sent), then send it."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metering.formulas import FORMULA_BITS
from metering.formulas import uplink as uplink_formula
from protocol.codec import digest
from protocol.errors import DifferentUplinkError, InputError
from protocol.messages import Receipt, UplinkManifest
from protocol.terms import Terms
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
from user_client.custody.scratch import Scratch
from user_client.errors import NotPreparedError, PolicyError, SignalLossError
from user_client.privacy.reduction import reduction_risk, threshold_risk
from user_client.sdk.anchor import open_anchor
from user_client.sdk.desk import ATTACK_LEVELS, AttackLevel, Exposed, attack, level_of
from user_client.sdk.forgetting import forget_if_required, is_uplink
from user_client.sdk.hold_out import (
    described,
    fit_alone,
    keep_back,
)
from user_client.sdk.payload import Payload, payload_of
from user_client.sdk.policy import DITHERS, Policy, policy_under
from user_client.sdk.prepared import Prepared, prepared_before, store_prepared
from user_client.sdk.privacy import (
    PrivacyOptions,
    Sample,
    Treated,
    bits_of,
    dithered,
    non_readily_identifiable,
    treat,
)
from user_client.sdk.receipt import is_asked_for_again, store_receipt, was_received
from user_client.sdk.releases import SeenRows
from user_client.sdk.session import Session
from user_client.sdk.sums import prepare_sums
from user_client.sdk.terms import accepted_terms
from user_client.tables import EncodedTable, encode_table
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
    if threshold is not None and not 0 < threshold <= 1:
        raise InputError(f"the threshold is a share above 0 and at most 1, got {threshold:g}")
    with directory.exclusive():
        terms, source = accepted_terms(directory), _source_digest(data)
        policy = policy_under(terms, directory.home)
        if level == "none" and policy and policy.needs_attacks:
            level = "quick"
        earlier = _prepared_alike(directory, source, options)
        if earlier is not None and _measures(earlier, threshold, level=level) and _is_whole(directory):
            return earlier
        if was_received(session, directory):
            earlier = _prepared_alike(directory, source, options)  # the received one may be another
            if earlier is None:
                raise DifferentUplinkError(session.membership.party)
            return earlier
        return _prepare_anew(
            session,
            directory,
            terms,
            data,
            options,
            source=source,
            threshold=threshold,
            policy=policy,
            level=level,
        )


def _prepare_anew(
    session: Session,
    directory: RoundDirectory,
    terms: Terms,
    data: Any,
    options: PrivacyOptions,
    *,
    source: str,
    threshold: float | None,
    policy: Policy | None,
    level: AttackLevel,
) -> Prepared:
    if terms.sums is not None:
        return prepare_sums(session, directory, terms, data, options, source=source)
    is_late = session.membership.party in terms.late_consumers
    scratch = Scratch(directory.path)
    seen = SeenRows(directory.home, scratch, apart_from=directory.collaboration_id)
    table = encode_table(data, terms.table_schema, scratch.keep, needs_labels=not is_late, watch=seen.add)
    anchor, commitment = open_anchor(session, directory)
    share = terms.hold_out if options.hold_out is None else options.hold_out
    kept = keep_back(directory, table.digest, table.labels, share, table.task)
    leaves = kept.leaves(len(table.rows))
    applied = non_readily_identifiable(options) if terms.returns_anchor_predictions else options
    applied = dithered(applied, terms.dither)
    treated = treat(
        table.rows.where(leaves), table.labels[leaves], terms.latent_dim, applied, scratch, table.task
    )
    alone = fit_alone(terms, treated.original, treated.labels) if table.task == terms.task else None
    treated = treated.without_rows() if is_late else treated
    payload = payload_of(terms, treated, anchor @ treated.secret_basis)
    sample = treated.sample()
    prepared = replace(
        _summary(terms, payload, treated, sample, options, applied, threshold, source),
        table_rows=len(table.rows),
        held_out_rows=len(kept.rows),
        alone=described(terms, alone),
        overlaps=tuple(seen.overlaps()),
    )
    if len(treated.rows):
        exposed = _exposed(terms, table, treated, payload.decoded(sample.rep), sample, applied)
        prepared = replace(prepared, attacks=attack(exposed, level))
        prepared = replace(prepared, would_pass=_would_pass(policy, exposed, prepared))
    kept_uplinks.keep(directory)
    directory.remove(PREPARED_FILE, MANIFEST_FILE)  # until they are back, the other files count as unfinished
    with directory.writing(PAYLOAD_FILE) as file:
        specs = tuple(payload.write(file))
    directory.write_secret(BASIS_FILE, _npy(treated.secret_basis))
    manifest = UplinkManifest(
        collaboration_id=directory.collaboration_id,
        terms_digest=digest(terms),
        party=session.membership.party,
        anchor_commitment=commitment,
        arrays=specs,
        privacy=applied.record(),
    )
    leaves[leaves] = treated.leaves  # some may have been left out, and of a late consumer no row leaves
    store_prepared(session, directory, prepared, manifest, kept, alone, seen, leaves)
    return prepared


def _exposed(
    terms: Terms,
    table: EncodedTable,
    treated: Treated,
    rep: NDArray[np.float64],
    sample: Sample,
    options: PrivacyOptions,
) -> Exposed:
    """Return the uplink as its attackers see it, with the rows in it; of a large one, a part."""
    return Exposed(
        table.some,
        terms.table_schema,
        sample.original,
        rep,
        treated.secret_basis,
        sample.labels,
        dither=options.dither or 0,
    )


def _would_pass(policy: Policy | None, exposed: Exposed, prepared: Prepared) -> str | None:
    """Return terms that our policy would allow, if it does not allow what was prepared."""
    if policy is None or not any(policy.violations(exposed.schema, prepared)):
        return None
    dithers = [dither for dither in DITHERS if dither > (prepared.privacy.dither or 0)]
    return policy.terms_that_pass(exposed, prepared, dithers)


def _summary(
    terms: Terms,
    payload: Payload,
    treated: Treated,
    sample: Sample,
    asked: PrivacyOptions,
    applied: PrivacyOptions,
    threshold: float | None,
    source: str,
) -> Prepared:
    """Measure the rows that leave, exactly as they leave, and describe the uplink; none of it is sent."""
    rows, basis = treated.rows, treated.secret_basis
    noisy = applied.sigma is not None or applied.dither is not None
    formula = uplink_formula(
        rows=len(rows), anchor_rows=terms.anchor.rows, latent_dim=terms.latent_dim, bits=FORMULA_BITS
    )
    return Prepared(
        rows=len(rows),
        table_rows=len(rows),
        features=terms.table_schema.width,
        latent_dim=terms.latent_dim,
        payload_bytes=sum(array.payload_bytes for array in payload.arrays),
        formula_bytes=formula.total_bytes,
        arrays=payload.arrays,
        hidden_share=reduction_risk(rows, basis),
        collusion_error=reduction_risk(treated.original, basis, rep=treated.rep) if noisy else None,
        threshold=None if threshold is None else threshold_risk(rows, basis, treated.axes, threshold),
        signal=treated.signal,
        information=bits_of(
            terms.table_schema,
            sample.original,
            sample.projected,
            number_type=terms.rep_dtype,
            dither=applied.dither or 0,
        ),
        least_signal=terms.least_signal,
        singular_values=treated.singular_values.tolist(),
        noise_sigma=applied.sigma,
        privacy=applied.record(),
        options=asked,
        source=source,
    )


def contribute(
    session: Session, directory: RoundDirectory, progress: Progress, *, accept_signal_loss: bool
) -> Receipt:
    """Send what was prepared, and store the analyst's receipt."""
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
            directory.write(BEGUN_FILE, b"")
            store_receipt(session, directory, _sent(session, directory, signed, manifest, progress))
        try:
            if had_receipt and is_asked_for_again(session, directory):
                _send_again(session, directory, manifest, progress)
        finally:  # what must not stay is erased even if the analyst cannot be asked
            if (
                manifest.has_sums
            ):  # nothing is masked again, and without the key this mask cannot be taken off
                directory.remove(MASK_KEY_FILE)
            forget_if_required(session, directory)
        return directory.load(Receipt)


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
        raise SignalLossError(prepared.signal.kept, least)


def _check_policy(directory: RoundDirectory) -> None:
    """Raise `PolicyError` if our policy, or the terms, do not allow what was prepared."""
    policy, prepared = policy_under(accepted_terms(directory), directory.home), prepared_before(directory)
    if policy is None:
        return
    if prepared is None:  # what was found is lost, or stored by another version
        raise _unread("a policy needs what `odc prepare` has found, and that cannot be read")
    if found := list(policy.violations(accepted_terms(directory).table_schema, prepared)):
        raise PolicyError(found, prepared.would_pass)


def _unread(text: str) -> NotPreparedError:
    error = NotPreparedError(text)
    error.hint = "run `odc prepare TABLE` again"
    return error


def stored_basis(directory: RoundDirectory) -> NDArray[np.float64] | None:
    """Return the secret basis (m, l), or None if it is not on this machine any more."""
    if not directory.holds(BASIS_FILE):
        return None
    return np.asarray(np.load(io.BytesIO(directory.read_secret(BASIS_FILE)), allow_pickle=False))


def _prepared_alike(directory: RoundDirectory, source: str, options: PrivacyOptions) -> Prepared | None:
    """Return what was prepared last if it was of the same table file with the same options, else None."""
    earlier = prepared_before(directory)
    is_alike = earlier is not None and bool(source) and (earlier.source, earlier.options) == (source, options)
    return earlier if is_alike else None


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


def _source_digest(data: Any) -> str:
    """Return the digest of the table file; empty for a table in memory, which never counts as the same."""
    if not isinstance(data, str | Path):
        return ""
    path = Path(data)
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _npy(matrix: AnyArray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, matrix, allow_pickle=False)
    return buffer.getvalue()
