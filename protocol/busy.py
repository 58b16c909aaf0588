"""The answer of an analyst that admits no request now, and says when to come back."""

from __future__ import annotations

from protocol.errors import OdcError


class TooManyRequestsError(OdcError):
    """More requests or connections of one certificate, token or address than the analyst admits."""

    code = "too-many-requests"
    title = "Too many requests"
    hint = "ask less often; `odc` waits as long as the analyst asks, by itself"
