"""What the analyst keeps: records in a SQL database, and blobs behind one interface."""

from analyst_server.store.blobs import (
    Blobs,
    DamagedBlobError,
    DirectoryBlobs,
    MemoryBlobs,
    StoredArray,
    at_least_single,
    only_server,
    store_array,
)
from analyst_server.store.leases import Leases
from analyst_server.store.records import Records, Unit
from analyst_server.store.tables import (
    Collaboration,
    Downlink,
    DownlinkState,
    Enrolled,
    LedgerRow,
    Member,
    MemberState,
    Progress,
    Revocations,
    ScoreRow,
    Token,
    TrafficRow,
    Uplink,
    UplinkState,
)

__all__ = [
    "Blobs",
    "Collaboration",
    "DamagedBlobError",
    "DirectoryBlobs",
    "Downlink",
    "DownlinkState",
    "Enrolled",
    "Leases",
    "LedgerRow",
    "Member",
    "MemberState",
    "MemoryBlobs",
    "Progress",
    "Records",
    "Revocations",
    "ScoreRow",
    "StoredArray",
    "Token",
    "TrafficRow",
    "Unit",
    "Uplink",
    "UplinkState",
    "at_least_single",
    "only_server",
    "store_array",
]
