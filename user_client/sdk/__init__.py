"""What a data engineer imports: the use cases of an institution and of the lead.

>>> from pathlib import Path
>>> from user_client.sdk import Session
>>> Session(Path("no-such-directory")).is_joined()
False
"""

from protocol.consent import plain_words
from protocol.own_pki import NameMapping
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
    unlock_root,
)
from user_client.sdk.downlink import own_model, predict, receive
from user_client.sdk.forget import Examined, examine, forget
from user_client.sdk.forget import in_words as forgotten_in_words
from user_client.sdk.ledger import CheckedLedger, fetch_ledger, stored_ledger, verify_ledger
from user_client.sdk.membership import join
from user_client.sdk.own_certificate import (
    OwnCertificate,
    read_authority,
    read_own_certificate,
    read_own_key,
)
from user_client.sdk.picture import draw_picture
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.session import Session
from user_client.sdk.terms import accept_terms, fetch_terms
from user_client.sdk.tokens import NewToken, create_token, list_tokens, revoke_token
from user_client.sdk.traffic import explain_our_bytes
from user_client.sdk.uplink import Prepared, contribute, prepare, prepared_before

__all__ = [
    "Approved",
    "CheckedLedger",
    "Examined",
    "Member",
    "NameMapping",
    "NewToken",
    "OwnCertificate",
    "Prepared",
    "PrivacyOptions",
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
    "create_token",
    "draw_picture",
    "examine",
    "explain_our_bytes",
    "fetch_ledger",
    "fetch_terms",
    "forget",
    "forgotten_in_words",
    "invitations",
    "invite",
    "join",
    "list_tokens",
    "members",
    "own_model",
    "plain_words",
    "predict",
    "prepare",
    "prepared_before",
    "read_authority",
    "read_own_certificate",
    "read_own_key",
    "receive",
    "renew",
    "renew_in_time",
    "renew_own",
    "revoke",
    "revoke_token",
    "stored_ledger",
    "unlock_root",
    "update_revocations",
    "verify_ledger",
    "waiting_requests",
]
