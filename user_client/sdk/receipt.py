"""The analyst's receipt: asked for where it did not reach us, and stored with the uplink that it is for."""

from __future__ import annotations

from protocol.codec import digest
from protocol.errors import NotFoundError, NotPermittedError
from protocol.messages import Receipt, UplinkManifest
from protocol.operations import COLLABORATION_STATUS, FETCH_RECEIPT
from protocol.terms import Terms
from user_client.custody import kept_uplinks
from user_client.custody.round_directory import RoundDirectory
from user_client.sdk.answers import status_in
from user_client.sdk.session import Session


def was_received(session: Session, directory: RoundDirectory) -> bool:
    """Return whether the analyst has our uplink, even if its receipt did not reach us.

    The basis of an uplink that was received must not be drawn again: what comes back fits no other. If it is
    one that was prepared before, this puts it back into its place. The caller holds the lock.
    """
    if directory.holds(Receipt):
        return True
    if not directory.holds(UplinkManifest) and not kept_uplinks.are_there(directory):
        return False
    try:
        data = session.connection.ask(FETCH_RECEIPT, collaboration_id=directory.collaboration_id).content
    except NotFoundError:
        return False
    store_receipt(session, directory, data)
    return True


def is_asked_for_again(session: Session, directory: RoundDirectory) -> bool:
    """Return whether the analyst awaits the bytes that our receipt is for, because its copy is damaged."""
    answer = session.connection.ask_json(COLLABORATION_STATUS, collaboration_id=directory.collaboration_id)
    ours = [
        each for each in status_in(answer).get("members", ()) if each["party"] == session.membership.party
    ]
    return any(each.get("uplink") == "receiving" for each in ours)


def store_receipt(session: Session, directory: RoundDirectory, data: bytes) -> None:
    """Verify a receipt and store it, with the uplink that it is for in its place.

    Raises `NotPermittedError` if it is for none that we have prepared, and what `verify` raises.
    """
    receipt = session.verify_from_analyst(Receipt, data, directory.find(Terms)).message
    kept = kept_uplinks.find(directory, receipt.uplink_digest)
    check_receipt(receipt, kept or directory.load(UplinkManifest))
    kept_uplinks.pick(directory, receipt.uplink_digest)
    directory.write(Receipt, data)


def check_receipt(receipt: Receipt, manifest: UplinkManifest) -> None:
    """Raise `NotPermittedError` unless a receipt is for the uplink that we sent."""
    if (receipt.collaboration_id, receipt.party) != (manifest.collaboration_id, manifest.party):
        raise NotPermittedError("the receipt is for another uplink")
    if receipt.uplink_digest != digest(manifest):
        raise NotPermittedError("the receipt is for other bytes than we sent")
