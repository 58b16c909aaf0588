"""The names of `user_client.sdk`, from the modules that define them."""

from protocol.consent import plain_words
from protocol.own_pki import NameMapping
from user_client.privacy.information import Information
from user_client.privacy.isolation import Isolated
from user_client.sdk.agreement import DITHER
from user_client.sdk.approval import Approval, Approved, approve_pending, approve_request, reject
from user_client.sdk.certificate_list import KnownCertificate, list_certificates
from user_client.sdk.certificate_requests import Waiting, check_request
from user_client.sdk.cohort import Cohort, Component, Figure
from user_client.sdk.consortium import (
    Member,
    Revoked,
    create_consortium,
    invitations,
    invite,
    invite_all,
    members,
    never_invited,
    renew_own,
    revoke,
)
from user_client.sdk.consumer import check_consumer
from user_client.sdk.contrasts import Coefficient, Coefficients, Fit
from user_client.sdk.corrections import differences
from user_client.sdk.desk import Attack, AttackLevel
from user_client.sdk.drafting import DraftedTerms, draft_terms, draft_terms_from_dictionary
from user_client.sdk.drafting_sums import naming_sums, with_sums
from user_client.sdk.evaluation import Evaluation
from user_client.sdk.evidence import Evidence
from user_client.sdk.explanation import ColumnWeight, Explanation
from user_client.sdk.forgetting import Examined
from user_client.sdk.hold_out import LocalFit
from user_client.sdk.ledger_check import CheckedLedger
from user_client.sdk.membership import (
    NewToken,
    create_token,
    join,
    list_tokens,
    renew,
    renew_in_time,
    revoke_token,
    update_revocations,
)
from user_client.sdk.model_card import Exported
from user_client.sdk.next_steps import NextStep, next_step, status_after, wait_for_change, wait_for_terms
from user_client.sdk.own_certificate import (
    OwnCertificate,
    read_authority,
    read_own_certificate,
    read_own_key,
)
from user_client.sdk.parts import JoinedPredictor, Part, make_part
from user_client.sdk.policy import Policy
from user_client.sdk.predictor import Predictions, Predictor
from user_client.sdk.prepared import Prepared
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.releases import Release, list_releases
from user_client.sdk.round import Round
from user_client.sdk.session import Session
from user_client.sdk.shared_rows import SharedRows, Trained
from user_client.sdk.terms import CheckedTable, check_table, reject_terms
from user_client.sdk.unfit_rows import UnfitRows
from user_client.secret.signal import Signal
from user_client.tables.draft_label import DraftedEvent

__all__ = [
    "DITHER",
    "Approval",
    "Approved",
    "Attack",
    "AttackLevel",
    "CheckedLedger",
    "CheckedTable",
    "Coefficient",
    "Coefficients",
    "Cohort",
    "ColumnWeight",
    "Component",
    "DraftedEvent",
    "DraftedTerms",
    "Evaluation",
    "Evidence",
    "Examined",
    "Explanation",
    "Exported",
    "Figure",
    "Fit",
    "Information",
    "Isolated",
    "JoinedPredictor",
    "KnownCertificate",
    "LocalFit",
    "Member",
    "NameMapping",
    "NewToken",
    "NextStep",
    "OwnCertificate",
    "Part",
    "Policy",
    "Predictions",
    "Predictor",
    "Prepared",
    "PrivacyOptions",
    "Release",
    "Revoked",
    "Round",
    "Session",
    "SharedRows",
    "Signal",
    "Trained",
    "UnfitRows",
    "Waiting",
    "approve_pending",
    "approve_request",
    "check_consumer",
    "check_request",
    "check_table",
    "create_consortium",
    "create_token",
    "differences",
    "draft_terms",
    "draft_terms_from_dictionary",
    "invitations",
    "invite",
    "invite_all",
    "join",
    "list_certificates",
    "list_releases",
    "list_tokens",
    "make_part",
    "members",
    "naming_sums",
    "never_invited",
    "next_step",
    "plain_words",
    "read_authority",
    "read_own_certificate",
    "read_own_key",
    "reject",
    "reject_terms",
    "renew",
    "renew_in_time",
    "renew_own",
    "revoke",
    "revoke_token",
    "status_after",
    "update_revocations",
    "wait_for_change",
    "wait_for_terms",
    "with_sums",
]
