"""Attempts at a round that are all refused: other parties' messages, other terms, steps that are not due."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgpack
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import Message, digest, encode
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, Signed, sign, signed_bytes
from protocol.ledger import SeenLedger
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import Acceptance, ArraySpec, SeenHead, UplinkManifest
from protocol.operations import (
    ACCEPT_TERMS,
    BEGIN_UPLINK,
    COLLABORATION_STATUS,
    FETCH_DOWNLINK,
    FETCH_TERMS,
    ONLY_OWN,
    SEND_SEEN_LEDGER,
    Operation,
)
from protocol.states import State
from protocol.terms import Terms
from protocol.version import MEDIA_TYPE
from user_client.sdk.conformance_attempts import Attempt, SkippedError, refused
from user_client.sdk.session import Session
from user_client.transport import AnalystConnection, json_object

BEHIND_ITS_END: Final = 10**15
"""A byte that no downlink has."""
NO_SLUG: Final = "error"
"""What HTTP itself refuses, here with 416, has no problem type of ours."""
_BEFORE_RELEASE: Final = (State.ENROLLING, State.ANCHORED, State.COLLECTING, State.SEALED)
_ACCEPTS: Final = "the author's name is `party`, its role is not `analyst`; the digest of the terms"
_OTHER_TERMS: Final = (
    "The analyst MUST refuse an Acceptance whose `terms_digest` or `shown_digest` is not that of the terms"
    " it published"
)
_OWN_UPLINK: Final = "the author's name is `party`; section 8"
_SIGNATURE: Final = "`signature` MUST be its signature over the signed bytes"
_KIND: Final = "`kind` MUST be the label of the kind expected"
_CRITICAL: Final = "A receiver MUST refuse an unknown critical field in any message"
_TYPE: Final = (
    "A request body in MT MUST have that content type: another version of it is `unsupported-version`"
)


def attempts(session: Session, member: AnalystConnection, collaboration_id: str) -> Iterator[Attempt]:
    """Yield what is tried with the certificate of a member of the round."""
    tried = _Round(session, member, collaboration_id)
    accept, begin = ACCEPT_TERMS, BEGIN_UPLINK
    for what, section, says, expected, operation, body in [
        ("an acceptance that somebody else has signed", "4", _SIGNATURE, "bad-signature", accept,
            lambda: tried.signed_by_a_stranger(tried.acceptance())),
        ("an acceptance in another party's name", "4", _ACCEPTS, "not-permitted", accept,
            lambda: tried.sign(tried.acceptance(party=tried.another))),
        ("an acceptance of other terms", "6", _OTHER_TERMS, "terms-mismatch", accept,
            lambda: tried.sign(tried.acceptance(terms_digest=secrets.token_bytes(32)))),
        ("an acceptance of another text", "6", _OTHER_TERMS, "terms-mismatch", accept,
            lambda: tried.sign(tried.acceptance(shown_digest=secrets.token_bytes(32)))),
        ("an acceptance with a field that nobody knows", "14", _CRITICAL, "malformed-message", accept,
            lambda: tried.with_a_field(tried.acceptance())),
        ("an acceptance where a manifest should be", "4", _KIND, "malformed-message", begin,
            lambda: tried.sign(tried.acceptance())),
        ("a manifest that somebody else has signed", "4", _SIGNATURE, "bad-signature", begin,
            lambda: tried.signed_by_a_stranger(tried.manifest())),
        ("a manifest of another party", "4", _OWN_UPLINK, "not-permitted", begin,
            lambda: tried.sign(tried.manifest(party=tried.another))),
        ("a manifest of another round", "4", _OWN_UPLINK, "not-permitted", begin,
            lambda: tried.sign(tried.manifest(collaboration_id=secrets.token_hex(16)))),
        ("a manifest with a field that nobody knows", "14", _CRITICAL, "malformed-message", begin,
            lambda: tried.with_a_field(tried.manifest())),
    ]:  # fmt: skip
        yield Attempt(what, section, tried.refusal(expected, operation, body), says)
    for what, media_type, expected in [
        ("an acceptance in another version", MEDIA_TYPE.replace("v1", "v2"), "unsupported-version"),
        ("an acceptance as JSON", "application/json", "malformed-message"),
    ]:
        own = tried.refusal(expected, accept, lambda: tried.sign(tried.acceptance()), media_type)
        yield Attempt(what, "11", own, _TYPE)
    yield Attempt(
        "a ledger that there is not, as seen",
        "10",
        tried.seen,
        "The analyst MUST refuse one whose `seen` is not a head",
    )
    yield Attempt("a downlink before the release", "11", tried.too_early, "A downlink before `released`")
    yield Attempt("a part behind the end of a downlink", "11", tried.behind, "416 if there is no byte N")


class _Round:
    """A round of ours, and messages of it that have to be refused."""

    def __init__(self, session: Session, member: AnalystConnection, collaboration_id: str) -> None:
        self._session, self._member, self.id = session, member, collaboration_id

    @property
    def terms(self) -> Terms:
        signed = self._member.request_once("GET", FETCH_TERMS.url(collaboration_id=self.id)).content
        return self._session.verify_kept(Terms, signed).message

    @property
    def another(self) -> str:
        """A party that we are not."""
        own = self._session.membership.party
        return next((name for name in self.terms.parties if name != own), "nobody-else")

    def sign(self, message: Message) -> bytes:
        return self._session.sign(message)

    def signed_by_a_stranger(self, message: Message) -> bytes:
        return sign(message, ec.generate_private_key(ec.SECP256R1()), self._session.home.certificate())

    def with_a_field(self, message: Message) -> bytes:
        """Return a message of ours, well signed, with a critical field that nobody knows."""
        content = {**msgpack.unpackb(encode(message)), "unknown": True}
        payload = msgpack.packb({name: content[name] for name in sorted(content)})
        label, home = message.signing_label, self._session.home
        signature = home.key().sign(signed_bytes(label, payload), ec.ECDSA(hashes.SHA256()))
        certificate = home.certificate().public_bytes(Encoding.DER)
        return encode(Signed(kind=label, payload=payload, certificate=certificate, signature=signature))

    def acceptance(self, **changes: object) -> Acceptance:
        terms = self.terms
        suite = terms.sealing_suites[0]
        made = Acceptance(
            collaboration_id=self.id,
            terms_digest=digest(terms),
            shown_digest=plain_words_digest(terms),
            party=self._session.membership.party,
            sealing_suite=suite,
            sealing_key=SealingKey.generate(suite).public_bytes(),
        )
        return made.model_copy(update=changes)

    def manifest(self, **changes: object) -> UplinkManifest:
        terms = self.terms
        specs = [("rep", (1, terms.latent_dim)), ("anchor_rep", (terms.anchor.rows, terms.latent_dim))]
        made = UplinkManifest(
            collaboration_id=self.id,
            terms_digest=digest(terms),
            party=self._session.membership.party,
            anchor_commitment=secrets.token_bytes(32),
            chunk_bytes=DEFAULT_CHUNK_BYTES,
            arrays=(
                *(ArraySpec(name=name, dtype="f4", shape=shape, digest=bytes(32)) for name, shape in specs),
                ArraySpec(name="labels", dtype="u1", shape=(1,), digest=bytes(32)),
            ),
        )
        return made.model_copy(update=changes)

    def refusal(
        self, expected: str, operation: Operation, body: Callable[[], bytes], media_type: str = MEDIA_TYPE
    ) -> Callable[[], None]:
        path = operation.url(collaboration_id=self.id)
        headers = {"content-type": media_type}
        return lambda: refused(self._member, expected, operation.method, path, body(), headers)

    def seen(self) -> None:
        expected = "malformed-message" if self.terms.analyst_key is None else "ledger-broken"
        seen = SeenHead(length=1, digest=secrets.token_bytes(32))
        said = SeenLedger(
            collaboration_id=self.id,
            party=self._session.membership.party,
            seen=seen,
            at=self._session.clock(),
        )
        self.refusal(expected, SEND_SEEN_LEDGER, lambda: self.sign(said))()

    def too_early(self) -> None:
        if self._status["state"] not in _BEFORE_RELEASE:
            raise SkippedError("the round is past that")
        refused(self._member, "out-of-order", "GET", FETCH_DOWNLINK.url(collaboration_id=self.id))

    def behind(self) -> None:
        """Ask behind the end; who has not fetched yet asks for nothing, since that would be a step."""
        if self._status["members"][0].get("downlink") != "fetched":
            raise SkippedError("our downlink was not fetched yet")
        path = FETCH_DOWNLINK.url(collaboration_id=self.id)
        part = {"range": f"bytes={BEHIND_ITS_END}-"}
        refused(self._member, NO_SLUG, "GET", path, None, part)

    @property
    def _status(self) -> dict[str, Any]:
        path = COLLABORATION_STATUS.url(collaboration_id=self.id)
        return json_object(self._member.request_once("GET", f"{path}?{ONLY_OWN}"))
