"""The analyst's key: believed from the first message on, and no other after it.

A certificate of the root says who is an analyst, and the lead can issue as many as it likes. Renewing keeps
the key, so that another key is another machine, or one that was set up anew: a person has to say so.
"""

from __future__ import annotations

import re
from typing import Final

from protocol.codec import decode
from protocol.envelope import Signed
from protocol.errors import InputError
from protocol.identity import key_digest, load_der_certificate, public_key, read_aloud
from protocol.terms import Terms
from user_client.custody.home import Home
from user_client.errors import AnotherAnalystError

_DIGEST: Final = re.compile("[0-9a-f]{64}")


def signed_with(signed: bytes) -> str:
    """Return the digest of the key that a verified message was signed with."""
    return key_digest(public_key(load_der_certificate(decode(Signed, signed).certificate)))


def check_now(home: Home, terms: Terms | None, signed: bytes, what: str) -> None:
    """Raise `AnotherAnalystError` unless the analyst signed with the key that we know; learn the first.

    Parameters
    ----------
    terms : Terms, optional
        Of the round that the message belongs to: a key in them is the only one for it.
    """
    found, known = signed_with(signed), home.analyst_keys()
    _check_terms(terms, found, what)
    if not known:
        home.believe_analyst(found)
    elif found != known[-1]:
        raise _another(what, found, known[-1])


def check_archived(home: Home, terms: Terms | None, signed: bytes, what: str) -> None:
    """Do the same for what may have been signed earlier, with a key that was believed then."""
    found, known = signed_with(signed), home.analyst_keys()
    _check_terms(terms, found, what)
    if known and found not in known:
        raise _another(what, found, known[-1])


def believe(home: Home, fingerprint: str) -> str:
    """Believe an analyst with this fingerprint from now on; return it as people read it.

    Raises `InputError` if it is none.
    """
    digest = "".join(fingerprint.lower().replace(":", " ").split())
    if not _DIGEST.fullmatch(digest):
        error = InputError("a key's fingerprint has 64 hexadecimal digits")
        error.hint = "`odc-analyst key` prints it; have the operator read it to you by telephone"
        raise error
    home.believe_analyst(digest)
    return in_words(digest)


def believed(home: Home) -> str | None:
    """Return the digest of the analyst's key that is believed, or None before the first message."""
    return home.analyst_keys()[-1] if home.analyst_keys() else None


def in_words(digest: str) -> str:
    """Return the digest of a key as people read it."""
    return read_aloud(bytes.fromhex(digest))


def _check_terms(terms: Terms | None, found: str, what: str) -> None:
    if terms is not None and terms.analyst_key not in (None, found):
        error = _another(what, found, terms.analyst_key or "")
        error.hint = "stop here: the terms that all signed name that key alone; a new key needs new terms"
        raise error


def _another(what: str, found: str, expected: str) -> AnotherAnalystError:
    return AnotherAnalystError(what, in_words(found), in_words(expected))
