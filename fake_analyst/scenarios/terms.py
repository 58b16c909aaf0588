"""Terms that are not those of the round, or not signed by the analyst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgpack
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fake_analyst.between import Answer, Lie, Request, with_body
from fake_analyst.client import Step
from fake_analyst.honest import Honest
from fake_analyst.scenario import Scenario, Stand
from fake_analyst.signers import Signer
from protocol.codec import decode, encode
from protocol.envelope import Signed, decode_stored, signed_bytes
from protocol.ledger import LedgerHead
from protocol.operations import ACCEPT_TERMS, APPEND, BEGIN_UPLINK, FETCH_REVOCATIONS, FETCH_TERMS
from protocol.terms import Terms
from user_client.sdk.session import unix_now

CRL: Final = "application/pkix-crl"


def _instead_of_terms(make: Callable[[Honest, Terms, bytes], bytes]) -> Callable[[Stand], Sequence[Lie]]:
    """Return a lie that sends what is made of the true terms, and of the true signed message."""

    def lies(stand: Stand) -> Sequence[Lie]:
        def change(_request: Request, answer: Answer) -> Answer:
            return with_body(answer, make(stand.honest, decode_stored(Terms, answer.body), answer.body))

        return [Lie(FETCH_TERMS, change)]

    return lies


def signed_by(who: Callable[[Honest], Signer], **changes: Any) -> Callable[[Honest, Terms, bytes], bytes]:
    return lambda honest, terms, _data: who(honest).sign(terms.model_copy(update=changes))


def _with_a_flipped_signature(_honest: Honest, _terms: Terms, data: bytes) -> bytes:
    signed = decode(Signed, data)
    kept = signed.signature
    return encode(signed.model_copy(update={"signature": kept[:-1] + bytes([kept[-1] ^ 1])}))


def _of_another_kind(honest: Honest, terms: Terms, _data: bytes) -> bytes:
    head = LedgerHead(collaboration_id=terms.collaboration_id, length=1, digest=bytes(32), at=unix_now())
    return honest.signers.analyst.sign(head)


def _with_an_unknown_field(honest: Honest, terms: Terms, data: bytes) -> bytes:
    content = {**msgpack.unpackb(encode(terms)), "also_sends": True}
    payload = msgpack.packb({name: content[name] for name in sorted(content)})
    signer = honest.signers.analyst
    signature = signer.key.sign(signed_bytes(Terms.signing_label, payload), ec.ECDSA(hashes.SHA256()))
    return encode(decode(Signed, data).model_copy(update={"payload": payload, "signature": signature}))


def _revoking(
    who: Callable[[Honest], Signer], *, by_stranger: bool = False
) -> Callable[[Stand], Sequence[Lie]]:
    """Return the truth that somebody is revoked, or a list that the consortium's root has not signed."""

    def lies(stand: Stand) -> Sequence[Lie]:
        signers = stand.honest.signers
        root = signers.stranger_root if by_stranger else signers.root
        listed = {who(stand.honest).certificate.serial_number: unix_now()}
        body = root.revoke(listed, number=1, now=unix_now())
        return [Lie(FETCH_REVOCATIONS, instead=lambda _request: Answer(200, {"content-type": CRL}, body))]

    return lies


SCENARIOS: Final = (
    Scenario(
        name="terms-of-another-analyst",
        does="sends terms signed by a second analyst of the consortium, which the lead has certified too",
        section="3",
        says=(
            "Under terms with an `analyst_key` everything that the analyst signs in that round, "
            "the terms themselves included, MUST be signed with that very key"
        ),
        step=Step.ACCEPT,
        lies=_instead_of_terms(signed_by(lambda honest: honest.signers.other_analyst)),
    ),
    Scenario(
        name="terms-by-an-institution",
        does="sends terms signed with a certificate for the role of an institution",
        section="4",
        says="an author of another role or name than there is `not-permitted`",
        step=Step.ACCEPT,
        lies=_instead_of_terms(signed_by(lambda honest: honest.signers.outsider)),
    ),
    Scenario(
        name="terms-under-another-root",
        does="sends terms signed in the analyst's name with a certificate of another root",
        section="3",
        says="a certificate not signed by the root, or outside its validity",
        step=Step.ACCEPT,
        lies=_instead_of_terms(signed_by(lambda honest: honest.signers.other_root)),
    ),
    Scenario(
        name="terms-with-a-broken-signature",
        does="flips a bit of the signature under the terms",
        section="4",
        says="`signature` MUST be its signature over the signed bytes",
        step=Step.ACCEPT,
        lies=_instead_of_terms(_with_a_flipped_signature),
    ),
    Scenario(
        name="terms-of-another-kind",
        does="sends a signed ledger head where the terms should be",
        section="4",
        says="`kind` MUST be the label of the kind expected",
        step=Step.ACCEPT,
        lies=_instead_of_terms(_of_another_kind),
    ),
    Scenario(
        name="terms-of-another-round",
        does="sends terms of another collaboration, well signed",
        section="4",
        says="role `analyst`; the ids are those asked for",
        step=Step.ACCEPT,
        lies=_instead_of_terms(signed_by(lambda honest: honest.signers.analyst, collaboration_id="0" * 32)),
    ),
    Scenario(
        name="terms-with-an-unknown-field",
        does="sends terms with a field that nobody knows, well signed",
        section="14",
        says="A receiver MUST refuse an unknown critical field in any message",
        step=Step.ACCEPT,
        lies=_instead_of_terms(_with_an_unknown_field),
    ),
    Scenario(
        name="revoked-analyst",
        does="is on the consortium's newest revocation list, and goes on",
        section="3",
        says="one whose serial number the newest revocation list the receiver holds names",
        step=Step.ACCEPT,
        lies=_revoking(lambda honest: honest.signers.analyst),
        refreshes=True,
    ),
    Scenario(
        name="revocation-list-of-another-root",
        does="sends a revocation list that another root has signed",
        section="3",
        says="A receiver MUST refuse (`certificate-refused`) a list that the root did not sign",
        step=Step.ACCEPT,
        lies=_revoking(lambda honest: honest.signers.outsider, by_stranger=True),
        refreshes=True,
    ),
    Scenario(
        name="revoked-lead",
        does="passes on an anchor of a lead whose certificate the newest revocation list names",
        section="10",
        says="A revoked certificate is refused for all of these, at every time",
        step=Step.CONTRIBUTE,
        lies=_revoking(lambda honest: honest.signers.lead),
        refreshes=True,
    ),
    Scenario(
        name="other-terms-after-signing",
        does="sends other terms for the same round, well signed, once the client has accepted",
        section="6",
        says=(
            "whoever has signed and is sent other terms under the same `collaboration_id` MUST "
            "stop (`terms-mismatch`)"
        ),
        step=Step.CONTRIBUTE,
        by=Step.ACCEPT,
        if_asked=True,
        never=(ACCEPT_TERMS, BEGIN_UPLINK, APPEND),
        lies=_instead_of_terms(signed_by(lambda honest: honest.signers.analyst, title="Other terms")),
    ),
)
