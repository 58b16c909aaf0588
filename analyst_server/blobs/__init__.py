"""The arrays that the analyst keeps, as blobs behind one interface; whoever computes needs no records.

What computes a round imports this and no database (`analyst_server.store` has the records).
"""

from analyst_server.blobs.arrays import (
    DamagedBlobError,
    StoredArray,
    at_least_single,
    store_array,
    store_arrays,
    store_blocks,
)
from analyst_server.blobs.s3 import S3Blobs, remember_access
from analyst_server.blobs.store_id import STORE_ID_KEY, id_of
from analyst_server.blobs.stores import Blobs, DirectoryBlobs, MemoryBlobs, only_server

__all__ = [
    "STORE_ID_KEY",
    "Blobs",
    "DamagedBlobError",
    "DirectoryBlobs",
    "MemoryBlobs",
    "S3Blobs",
    "StoredArray",
    "at_least_single",
    "id_of",
    "only_server",
    "remember_access",
    "store_array",
    "store_arrays",
    "store_blocks",
]
