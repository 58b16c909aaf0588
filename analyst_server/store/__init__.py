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
    Enrolled,
    LedgerRow,
    Member,
    Revocations,
    ScoreRow,
    Token,
    TrafficRow,
    Uplink,
)

__all__ = [
    "Blobs",
    "Collaboration",
    "DamagedBlobError",
    "DirectoryBlobs",
    "Downlink",
    "Enrolled",
    "Leases",
    "LedgerRow",
    "Member",
    "MemoryBlobs",
    "Records",
    "Revocations",
    "ScoreRow",
    "StoredArray",
    "Token",
    "TrafficRow",
    "Unit",
    "Uplink",
    "at_least_single",
    "only_server",
    "store_array",
]
