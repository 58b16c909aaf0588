"""Records and blobs: what the analyst keeps, one interface each."""

from analyst_server.store.blobs import DirectoryBlobs
from analyst_server.store.lock import only_server
from analyst_server.store.records import Records, Unit
from analyst_server.store.tables import (
    Collaboration,
    Downlink,
    Enrolled,
    LedgerRow,
    Member,
    Revocations,
    Token,
    TrafficRow,
    Uplink,
)

__all__ = [
    "Collaboration",
    "DirectoryBlobs",
    "Downlink",
    "Enrolled",
    "LedgerRow",
    "Member",
    "Records",
    "Revocations",
    "Token",
    "TrafficRow",
    "Unit",
    "Uplink",
    "only_server",
]
