"""What the analyst keeps: records in a SQL database, and blobs behind one interface."""

from analyst_server.store.arrays import (
    DamagedBlobError,
    StoredArray,
    at_least_single,
    store_array,
    store_arrays,
    store_blocks,
)
from analyst_server.store.blobs import Blobs, DirectoryBlobs, MemoryBlobs, only_server
from analyst_server.store.leases import Leases
from analyst_server.store.listings import Suspicions, Wanted, by_question
from analyst_server.store.records import Records, Unit, place_of
from analyst_server.store.revisions import require_known_copy
from analyst_server.store.s3 import S3Blobs, remember_access
from analyst_server.store.store_ids import STORE_ID_KEY, id_of, store_id_in
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
    "STORE_ID_KEY",
    "ActRow",
    "Blobs",
    "Collaboration",
    "DamagedBlobError",
    "DirectoryBlobs",
    "Downlink",
    "DownlinkState",
    "Enrolled",
    "EnrolledState",
    "Leases",
    "LedgerRow",
    "Member",
    "MemberState",
    "MemoryBlobs",
    "NoticeRow",
    "Progress",
    "Records",
    "Reserved",
    "Revocations",
    "S3Blobs",
    "ScoreRow",
    "SeenLedgerRow",
    "StoredArray",
    "Suspicions",
    "Token",
    "TrafficRow",
    "Unit",
    "Uplink",
    "UplinkState",
    "Wanted",
    "at_least_single",
    "by_question",
    "id_of",
    "only_server",
    "place_of",
    "remember_access",
    "require_known_copy",
    "store_array",
    "store_arrays",
    "store_blocks",
    "store_id_in",
]
