"""The records that the analyst keeps in a SQL database; the arrays are in `analyst_server.blobs`."""

from analyst_server.store.leases import Leases
from analyst_server.store.listings import Suspicions, Wanted, by_question
from analyst_server.store.records import Records, Unit, place_of
from analyst_server.store.revisions import require_known_copy
from analyst_server.store.store_ids import store_id_in
from analyst_server.store.tables import (
    ActRow,
    Collaboration,
    Downlink,
    DownlinkState,
    Enrolled,
    EnrolledState,
    LedgerRow,
    Member,
    MemberState,
    NoticeRow,
    Progress,
    Reserved,
    Revocations,
    ScoreRow,
    SeenLedgerRow,
    Token,
    TrafficRow,
    Uplink,
    UplinkState,
)

__all__ = [
    "ActRow",
    "Collaboration",
    "Downlink",
    "DownlinkState",
    "Enrolled",
    "EnrolledState",
    "Leases",
    "LedgerRow",
    "Member",
    "MemberState",
    "NoticeRow",
    "Progress",
    "Records",
    "Reserved",
    "Revocations",
    "ScoreRow",
    "SeenLedgerRow",
    "Suspicions",
    "Token",
    "TrafficRow",
    "Unit",
    "Uplink",
    "UplinkState",
    "Wanted",
    "by_question",
    "place_of",
    "require_known_copy",
    "store_id_in",
]
