"""How bytes reach the analyst: one connection, metered, errors translated."""

from user_client.transport.connection import ATTEMPTS, AnalystConnection, json_object
from user_client.transport.traffic import Traffic

__all__ = ["ATTEMPTS", "AnalystConnection", "Traffic", "json_object"]
