"""How bytes reach the analyst: one connection, metered, errors translated."""

from metering.client_traffic import Traffic
from user_client.transport.connection import (
    ATTEMPTS,
    AnalystConnection,
    Answer,
    LongAnswer,
    json_object,
    version_of,
)
from user_client.transport.download import Download

__all__ = [
    "ATTEMPTS",
    "AnalystConnection",
    "Answer",
    "Download",
    "LongAnswer",
    "Traffic",
    "json_object",
    "version_of",
]
