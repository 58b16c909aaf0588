"""Stand-ins that several kinds of tests share."""

from typing import Final

from protocol.version import MEDIA_TYPE

AS_MESSAGE: Final = {"content-type": MEDIA_TYPE}
"""Headers of a request that carries a message."""
