"""Who may look: the browser that came by the one-time address, and this host's name alone.

Other programs and other users of this machine reach the loopback too, and a stranger's name can be made to
lead there (DNS rebinding). The address has a token that opens once; the browser gets a cookie for it, which
no script can read and no other site can send along.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from pages.guard import Guard, is_from_our_page
from protocol.errors import NotPermittedError

ROOT: Final = "/ui"
FORM_TOKEN: Final = "form_token"  # noqa: S105  # the name of a field
_USED: Final = "stop this `odc ui` with Ctrl-C and start another: it prints a new address"


class Entry:
    """Lets one browser in, and knows it again.

    Parameters
    ----------
    host : str
        Name and port that the pages are asked for at, as a browser sends them in ``Host``.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self._token, self._session = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._is_used = False
        self._guard = Guard(secrets.token_bytes(32))
        # cookies do not know ports: that of another `odc ui` on this machine has another name
        self.cookie: Final = f"odc-ui-{host.rpartition(':')[2]}"

    def __repr__(self) -> str:
        return f"<Entry at {self.host}, {'used' if self._is_used else 'not used'}>"

    @property
    def url(self) -> str:
        """The address that opens once."""
        return f"http://{self.host}{ROOT}/enter/{self._token}"

    def open(self, token: str) -> str:
        """Return the value of the cookie for the token; raises `NotPermittedError` the second time."""
        if self._is_used or not hmac.compare_digest(token.encode(), self._token.encode()):
            error = NotPermittedError("this address has been used, or was never one of ours")
            error.hint = _USED
            raise error
        self._is_used = True
        return self._session

    def require_host(self, host: str) -> None:
        """Raise `NotPermittedError` unless a request names this host, by the only name it has."""
        if host != self.host:
            error = NotPermittedError("these pages are asked for by another name than theirs")
            error.hint = "open the address that `odc ui` has printed"
            raise error

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Return whether a request comes from the browser that was let in."""
        return hmac.compare_digest(cookies.get(self.cookie, "").encode(), self._session.encode())

    def require_session(self, cookies: Mapping[str, str]) -> None:
        """Raise `NotPermittedError` unless a request comes from the browser that was let in."""
        if not self.knows(cookies):
            error = NotPermittedError("this browser was not let in")
            error.hint = "open the address that `odc ui` has printed; once it was used, start `odc ui` again"
            raise error

    def form_token(self, now: int) -> str:
        """Return a token for the forms of one page."""
        return self._guard.form_token(self._session, now)

    def check_form(self, headers: Mapping[str, str], token: str, now: int) -> None:
        """Raise `NotPermittedError` unless one of our own pages has sent a form."""
        if not self._guard.is_form_token(token, self._session, now) or not is_from_our_page(headers, "http"):
            error = NotPermittedError("this form was not sent from one of these pages")
            error.hint = "go back, load the page again, and send the form once more; nothing was changed"
            raise error
