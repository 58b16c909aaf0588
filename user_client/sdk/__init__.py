"""What a data engineer imports: the use cases of an institution and of the lead.

>>> from pathlib import Path
>>> from user_client.sdk import Session
>>> Session(Path("no-such-directory")).is_joined()
False
"""

from protocol.consent import plain_words
from user_client.sdk.anchor import create_anchor
from user_client.sdk.approval import (
    Approved,
    Waiting,
    approve_checked,
    approve_pending,
    approve_request,
    approve_waiting,
    check_request,
    waiting_requests,
)
from user_client.sdk.certificates import renew, renew_in_time, update_revocations
from user_client.sdk.consortium import (
    Member,
    Revoked,
    create_consortium,
    invitations,
    invite,
    members,
    renew_own,
    revoke,
)
from user_client.sdk.downlink import predict, receive
from user_client.sdk.membership import join
from user_client.sdk.session import Session
from user_client.sdk.terms import accept_terms, fetch_terms
from user_client.sdk.traffic import explain_our_bytes
from user_client.sdk.uplink import Prepared, contribute, prepare

__all__ = [
    "Approved",
    "Member",
    "Prepared",
    "Revoked",
    "Session",
    "Waiting",
    "accept_terms",
    "approve_checked",
    "approve_pending",
    "approve_request",
    "approve_waiting",
    "check_request",
    "contribute",
    "create_anchor",
    "create_consortium",
    "explain_our_bytes",
    "fetch_terms",
    "invitations",
    "invite",
    "join",
    "members",
    "plain_words",
    "predict",
    "prepare",
    "receive",
    "renew",
    "renew_in_time",
    "renew_own",
    "revoke",
    "update_revocations",
    "waiting_requests",
]
