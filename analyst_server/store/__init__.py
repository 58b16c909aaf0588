"""What the analyst keeps: records in a SQL database, and blobs behind one interface."""

from analyst_server.store.blobs import Blobs, DirectoryBlobs, MemoryBlobs, only_server
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
    "DirectoryBlobs",
    "Downlink",
    "Enrolled",
    "LedgerRow",
    "Member",
    "MemoryBlobs",
    "Records",
    "Revocations",
    "ScoreRow",
    "Token",
    "TrafficRow",
    "Unit",
    "Uplink",
    "only_server",
]
