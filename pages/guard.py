"""What guards a session in a browser: a sealed cookie, and a token in every form.

Nothing is kept at the server: a session is what the cookie says, sealed with a key that only the server has.
A form's token is bound to the session, so that no other site can make one up.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORM_S: Final = 8 * 3600
"""How long the token of a form is good for."""
_NONCE_BYTES: Final = 12
_LONGEST: Final = 4096


class Guard:
    """Seals what a browser keeps, and makes and checks the tokens of forms.

    Parameters
    ----------
    key : bytes
        32 secret bytes; who has them can make sessions up.
    """

    def __init__(self, key: bytes) -> None:
        self._seal = AESGCM(hashlib.sha256(b"odc/v1/pages/session\x00" + key).digest())
        self._form_key = hashlib.sha256(b"odc/v1/pages/form\x00" + key).digest()

    def __repr__(self) -> str:
        return "<Guard>"

    def seal(self, value: Mapping[str, Any]) -> str:
        """Return a JSON object as text for a cookie, which nobody else can read or change."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._seal.encrypt(nonce, json.dumps(value).encode(), None)
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def open(self, text: str) -> dict[str, Any] | None:
        """Return what was sealed, or None if it was not sealed here."""
        if len(text) > _LONGEST:
            return None
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            plain = self._seal.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
        except (binascii.Error, ValueError, InvalidTag):
            return None
        found: dict[str, Any] = json.loads(plain)
        return found

    def form_token(self, subject: str, now: int) -> str:
        """Return a token for the forms of one page; ``subject`` names the session it is for."""
        # differs with every page, so that the length of a compressed page tells nothing of it
        head = f"{now:x}.{secrets.token_hex(8)}"
        return f"{head}.{self._mac(head, subject)}"

    def is_form_token(self, token: str, subject: str, now: int) -> bool:
        """Return whether a token was made for this session, and not too long ago."""
        head, _, mac = token.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(head, subject).encode()):
            return False
        return 0 <= now - int(head.partition(".")[0], 16) <= FORM_S

    def _mac(self, head: str, subject: str) -> str:
        return hmac.new(self._form_key, f"{head}\x00{subject}".encode(), hashlib.sha256).hexdigest()


def is_from_our_page(headers: Mapping[str, str], scheme: str = "https") -> bool:
    """Return whether a browser says that one of our own pages has sent a form.

    It says so in Sec-Fetch-Site; one that does not is asked for its Origin. Who says neither is not believed.
    """
    if (site := headers.get("sec-fetch-site")) is not None:
        return site == "same-origin"
    origin, host = urlsplit(headers.get("origin", "")), headers.get("host", "")
    return origin.scheme == scheme and host != "" and origin.netloc == host


def is_from_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a browser says that a page of another site has made a request.

    Programs say neither where a request comes from nor that it comes from nowhere.
    """
    if (site := headers.get("sec-fetch-site")) is not None:
        return site not in ("same-origin", "none")
    return "origin" in headers and not is_from_our_page(headers)
