"""The cases of messages.json: messages that hold, and those that break each rule of them."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator
from typing import Any

from tests.vectors import edges, groups, joined, pinned, suites, unknown
from tests.vectors import sums as messages_of_sums
from tests.vectors.examples import (
    ACCEPTANCE,
    AUTO_TERMS,
    COLLABORATION,
    CONSUMER_UPLINK,
    DITHERED_UPLINK,
    DOWNLINK,
    ENROLMENT,
    EVIDENCE,
    FOREST_TERMS,
    FORGETTING,
    KNN_TERMS,
    LATE_TERMS,
    LEDGER,
    LEDGER_HEAD,
    MEMBER_SCORE,
    NUMBER_TERMS,
    NUMERIC,
    PREDICTIONS_DOWNLINK,
    PRIVACY,
    PRIVATE_TERMS,
    PRIVATE_UPLINK,
    RECEIPT,
    RENEWAL,
    SCALED_TERMS,
    SCALED_UPLINK,
    SEALED_ANCHOR,
    SIGNED,
    SURVIVAL_TERMS,
    SVM,
    TERMS,
    TERMS_2,
    TICKET,
    UPLINK,
    Case,
    changed,
    without,
)
from tests.vectors.packing import pack, pack_fields, packed_items, to_json
from tests.vectors.terms import BROKEN_MODELS, TERMS_OF_SCHEMA_2, broken_terms


def valid_messages() -> Iterator[Case]:
    logistic = {"kind": "logistic", "inverse_penalty": 1.0, "epochs": 1000}
    longest_int = changed(TERMS, "alignment", "seed", to=2**63 - 1)
    for name, kind, value in [
        ("terms", "Terms", TERMS),
        ("terms with a logistic model and a uniform anchor", "Terms", {
            **TERMS, "model": logistic, "anchor": {"kind": "uniform", "rows": 100},
            "alignment": {"method": "odc", "target": "haar", "seed": 300}, "rep_dtype": "f8",
        }),
        ("terms with a row-revealing model", "Terms", {**TERMS, "model": SVM}),
        ("terms with random features in the kernel's place", "Terms", {**TERMS, "model": {
            "kind": "random-feature-svm", "random_features": 512, "inverse_penalty": 1.0, "gamma": 0.25,
            "epochs": 1000, "seed": 0,
        }}),
        ("terms with scaled 8-bit representations", "Terms", SCALED_TERMS),
        ("terms with the largest seed", "Terms", longest_int),
        ("terms with least squares onto a random invertible target", "Terms", {
            **TERMS, "alignment": {"method": "kawakami", "target": "invertible", "seed": 0},
        }),
        ("terms with an empty purpose and no missing texts", "Terms",
            changed({**TERMS, "purpose": ""}, "table_schema", "missing", to=[])),
        *((name, "Terms", terms) for name, terms in TERMS_OF_SCHEMA_2),
        ("member's score", "MemberScore", MEMBER_SCORE),
        ("member's score without a model of its own", "MemberScore", {
            **MEMBER_SCORE, "metric": "accuracy", "alone": None, "gain_low": None, "gain_high": None,
        }),
        ("invitation ticket", "InvitationTicket", TICKET),
        ("enrolment", "Enrolment", ENROLMENT),
        ("enrolment with a certificate of our own PKI", "Enrolment",
            {**ENROLMENT, "chain": [b"our certificate", b"an intermediate one"]}),
        ("renewal", "Renewal", RENEWAL),
        ("renewal with a certificate of our own PKI", "Renewal", {**RENEWAL, "chain": [b"our certificate"]}),
        ("acceptance", "Acceptance", ACCEPTANCE),
        ("acceptance of a row-revealing model", "Acceptance",
            {**ACCEPTANCE, "accept_row_revealing_model": True}),
        ("sealed anchor", "SealedAnchor", SEALED_ANCHOR),
        ("sealed anchor of a matrix", "SealedAnchor", {**SEALED_ANCHOR, "form": "matrix"}),
        ("terms with a public anchor", "Terms", {**TERMS, "anchor": {"kind": "public", "rows": 5}}),
        ("uplink manifest", "UplinkManifest", UPLINK),
        ("uplink manifest of a consumer without rows", "UplinkManifest", CONSUMER_UPLINK),
        ("uplink manifest of rows with noise, dropped and permuted, and of a perturbed basis",
            "UplinkManifest", PRIVATE_UPLINK),
        ("uplink manifest of rows with dither", "UplinkManifest", DITHERED_UPLINK),
        ("uplink manifest of scaled 8-bit representations", "UplinkManifest", SCALED_UPLINK),
        ("receipt", "Receipt", RECEIPT),
        ("ledger entry, the first", "LedgerEntry", LEDGER[0]),
        ("ledger entry of a party", "LedgerEntry", LEDGER[1]),
        ("ledger head", "LedgerHead", LEDGER_HEAD),
        ("ledger page", "LedgerPage", {"entries": LEDGER, "head": b"signed head"}),
        ("downlink manifest", "DownlinkManifest", DOWNLINK),
        ("downlink manifest with anchor predictions", "DownlinkManifest", PREDICTIONS_DOWNLINK),
        ("terms with anchor predictions", "Terms", {
            **TERMS, "anchor": {"kind": "gaussian", "rows": 6}, "downlink": "anchor-predictions",
        }),
        ("forgetting statement", "ForgettingStatement", FORGETTING),
        ("forgetting statement before anything was sent", "ForgettingStatement",
            {**FORGETTING, "uplink_digest": None}),
        ("evidence index", "EvidenceIndex", EVIDENCE),
        ("evidence index of a whole round", "EvidenceIndex", {**EVIDENCE, "absent": []}),
        ("signed, as a message alone", "Signed", SIGNED),
        *messages_of_sums.valid(), *pinned.valid(), *suites.valid(), *unknown.valid(), *edges.valid(),
        *joined.valid(), *groups.valid(),
    ]:  # fmt: skip
        packed = pack(value)
        yield {
            "name": name,
            "kind": kind,
            "verdict": "valid",
            "hex": packed.hex(),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "value": to_json(value),
        }


def broken_messages() -> Iterator[Case]:
    yield from (*_broken_bytes(), *_broken_values(), *_broken_schema_2(), *_too_much())
    yield from (_refused(*case) for case in edges.refused())


def _refused(name: str, kind: str, data: bytes, verdict: str = "malformed-message") -> Case:
    return {"name": name, "kind": kind, "verdict": verdict, "hex": data.hex()}


def _broken_bytes() -> Iterator[Case]:
    receipt, fields = pack(RECEIPT), packed_items(RECEIPT)
    terms = pack(TERMS)

    def with_field(name: str, packed: bytes) -> bytes:
        return pack_fields([(pack(key), packed if key == name else item) for key, item in fields.items()])

    pairs = [(pack(key), item) for key, item in fields.items()]
    digest = RECEIPT["uplink_digest"]
    for name, data in [
        ("nothing at all", b""),
        ("a byte that msgpack does not use", b"\xc1"),
        ("text", b"not msgpack"),
        ("cut off inside", receipt[:-1]),
        ("cut off after the first byte", receipt[:1]),
        ("a byte too many", receipt + b"\xc0"),
        ("an array instead of a map", pack(list(RECEIPT.values()))),
        ("nil", pack(None)),
        ("keys not sorted", pack_fields(pairs[::-1])),
        ("a key twice", pack_fields([*pairs[:1], *pairs])),
        ("a key that is a number", pack_fields([(pack(1), pack(1)), *pairs])),
        ("a key that is bytes", pack_fields([(pack(b"party"), pack("hospital-b")), *pairs])),
        ("a map head of 16 bits", b"\xde\x00\x05" + receipt[1:]),
        ("an integer in 64 bits that fits 32",
            with_field("received_at", b"\xcf" + (1_800_000_000).to_bytes(8, "big"))),
        ("an integer in 8 bits that fits 7", with_field("payload_bytes", b"\xcc\x33")),
        ("a positive integer in a signed form", with_field("payload_bytes", b"\xd0\x33")),
        ("a text with a longer head than it needs", with_field("party", b"\xd9\x0ahospital-b")),
        ("bytes with a longer head than they need", with_field("uplink_digest", b"\xc5\x00\x20" + digest)),
        ("bytes where text belongs", with_field("party", pack(b"hospital-b"))),
        ("text where bytes belong", with_field("uplink_digest", pack("a" * 32))),
        ("text that is not UTF-8", with_field("party", b"\xa2\xff\xfe")),
        ("a half of a surrogate pair", with_field("party", b"\xa3\xed\xa0\x80")),
        ("a float where an integer belongs", with_field("payload_bytes", pack(51.0))),
        ("a boolean where an integer belongs", with_field("payload_bytes", pack(True))),
        ("an extension type", with_field("payload_bytes", b"\xd4\x05\x00")),
        ("a msgpack timestamp", with_field("received_at", b"\xd6\xff" + (1_800_000_000).to_bytes(4, "big"))),
    ]:  # fmt: skip
        yield _refused(name, "Receipt", data)
    numeric = pack(NUMERIC["high"])
    for name, packed in [
        ("a float of 32 bits", b"\xca" + struct.pack(">f", 120.0)),
        ("an integer where a float belongs", pack(120)),
        ("a NaN", pack(math.nan)),
        ("an infinity", pack(math.inf)),
    ]:
        position = terms.index(pack("high") + numeric) + len(pack("high"))
        yield _refused(name, "Terms", terms[:position] + packed + terms[position + len(numeric) :])


def _broken_schema_2() -> Iterator[Case]:
    columns = ("table_schema", "columns")
    ranks, spread, levels = ((*columns, index) for index in range(3))
    cases = [
        ("terms of a schema that does not exist", {**TERMS_2, "terms_schema": 3}),
        ("terms of schema 1 with a field of schema 2", {**TERMS, "hold_out": 0.0}),
        ("terms of schema 1 with a column of schema 2",
            {**TERMS, "table_schema": TERMS_2["table_schema"], "anchor": TERMS_2["anchor"]}),
        ("terms of schema 1 with a model of schema 2", {**TERMS, "model": TERMS_2["model"]}),
        ("terms of schema 2 without a field of it", without(TERMS_2, "least_signal")),
        ("terms of schema 1 for a number",
            {**TERMS, "table_schema": {**TERMS["table_schema"],
                                       "label_column": NUMBER_TERMS["table_schema"]["label_column"]}}),
        ("a model of classes for a number", {**NUMBER_TERMS, "model": TERMS["model"] | {"kind": "svm"}}),
        ("a model of numbers for classes", {**TERMS_2, "model": NUMBER_TERMS["model"]}),
        ("predictions for an anchor of a number",
            {**NUMBER_TERMS, "anchor": {"kind": "gaussian", "rows": 100}, "downlink": "anchor-predictions"}),
        ("a private model of a number",
            {**NUMBER_TERMS, "model": TERMS["model"],
             "model_privacy": PRIVATE_TERMS["model_privacy"]}),
        ("a time of survival beyond the horizon",
            changed(SURVIVAL_TERMS, "table_schema", "label_column", "times", to=[365.0, 731.0])),
        ("times of survival that do not ascend",
            changed(SURVIVAL_TERMS, "table_schema", "label_column", "times", to=[365.0, 365.0])),
        ("a label of a number with low above high",
            changed(NUMBER_TERMS, "table_schema", "label_column", "low", to=81.0)),
        ("a negative dither", {**TERMS_2, "dither": -0.5}),
        ("terms of schema 1 with a dither", {**TERMS, "dither": 0.5}),
        ("a least signal of one", {**TERMS_2, "least_signal": 1.0}),
        ("an epsilon of zero", changed(PRIVATE_TERMS, "model_privacy", "epsilon", to=0.0)),
        ("more rows rebuilt than there are", changed(PRIVATE_TERMS, "exposure", "max_exact_rows", to=1.5)),
        ("a negative number of columns", changed(PRIVATE_TERMS, "exposure", "max_found_columns", to=-1)),
        ("hidden bits without end", changed(PRIVATE_TERMS, "exposure", "min_hidden_bits", to=float("inf"))),
        ("a late consumer that is no party", {**LATE_TERMS, "late_consumers": ["hospital-d"]}),
        ("a lead that comes late", {**LATE_TERMS, "late_consumers": ["hospital-a"]}),
        ("a late consumer twice", {**LATE_TERMS, "late_consumers": ["hospital-c", "hospital-c"]}),
        ("an empty list of late consumers", {**LATE_TERMS, "late_consumers": []}),
        ("terms of schema 1 with a late consumer", {**TERMS, "late_consumers": ["hospital-b"]}),
        *BROKEN_MODELS,
        ("a choice that names no candidates",
            {**AUTO_TERMS, "model": {"kind": "auto", "budget_s": 600, "seed": 0}}),
        ("a choice among one", changed(AUTO_TERMS, "model", "candidates", to=[KNN_TERMS["model"]])),
        ("the same candidate twice", changed(AUTO_TERMS, "model", "candidates", to=[KNN_TERMS["model"]] * 2)),
        ("a choice among choices",
            changed(AUTO_TERMS, "model", "candidates", to=[KNN_TERMS["model"], AUTO_TERMS["model"]])),
        ("a candidate that does not predict classes",
            changed(AUTO_TERMS, "model", "candidates", to=[KNN_TERMS["model"], NUMBER_TERMS["model"]])),
        ("a choice without time", changed(AUTO_TERMS, "model", "budget_s", to=0)),
        ("a choice of a private model",
            {**AUTO_TERMS, "model_privacy": PRIVATE_TERMS["model_privacy"]}),
        ("terms of schema 1 with a choice", {**TERMS, "model": AUTO_TERMS["model"]}),
        ("no neighbour at all", changed(KNN_TERMS, "model", "neighbours", to=0)),
        ("terms of schema 1 with nearest neighbours", {**TERMS, "model": KNN_TERMS["model"]}),
        ("terms of schema 1 with a forest", {**TERMS, "model": FOREST_TERMS["model"]}),
        ("a delta of one", changed(PRIVATE_TERMS, "model_privacy", "delta", to=1.0)),
        ("a private model of a kind without private training",
            {**PRIVATE_TERMS, "model": TERMS_2["model"]}),
        ("a private model with a field that it does not use",
            changed(PRIVATE_TERMS, "model", "inverse_penalty", to=2.0)),
        ("terms of schema 1 with a private model",
            {**TERMS, "model_privacy": PRIVATE_TERMS["model_privacy"]}),
        ("a hold-out of more than half", {**TERMS_2, "hold_out": 0.75}),
        ("one quantile", changed(TERMS_2, *ranks, "quantiles", to=[1.0])),
        ("more quantiles than a column may have",
            changed(TERMS_2, *ranks, "quantiles", to=[float(k) for k in range(1002)])),
        ("quantiles that descend", changed(TERMS_2, *ranks, "quantiles", to=[0.0, 2.0, 1.0, 3.0])),
        ("quantiles that are all the same", changed(TERMS_2, *ranks, "quantiles", to=[1.0, 1.0])),
        ("quantiles whose difference is not finite",
            changed(TERMS_2, *ranks, "quantiles", to=[-1.7e308, 1.7e308])),
        ("a share of empty fields where they are refused", changed(TERMS_2, *ranks, "missing_share", to=0.5)),
        ("a share of empty fields above one", changed(TERMS_2, *levels, "missing_share", to=1.5)),
        ("an unknown use of empty fields", changed(TERMS_2, *ranks, "empty", to="guess")),
        ("a range that ends where it begins", changed(TERMS_2, *spread, "high", to=0.0)),
        ("a centre outside its range", changed(TERMS_2, *spread, "centre", to=4.5)),
        ("a share for every level but one", changed(TERMS_2, *levels, "shares", to=[0.25])),
        ("a negative share", changed(TERMS_2, *levels, "shares", to=[-0.25, 0.75])),
        ("a level with a share twice", changed(TERMS_2, *levels, "levels", to=["north", "north"])),
        ("a weight of zero", changed(TERMS_2, *levels, "weight", to=0.0)),
        ("a weight above one", changed(TERMS_2, *levels, "weight", to=1.5)),
        *broken_terms(),
    ]  # fmt: skip
    for name, value in cases:
        yield _refused(name, "Terms", pack(value))
    scores: list[tuple[str, dict[str, Any]]] = [
        ("a score of no rows", {"rows": 0}),
        ("a score of another kind", {"metric": "f1"}),
        ("a score above one", {"together": 1.5}),
        ("a gain without a score alone", {"alone": None}),
        ("a gain with one end", {"gain_low": None}),
        ("a gain whose ends are exchanged", {"gain_low": 0.5, "gain_high": 0.25}),
    ]
    for name, changes in scores:
        yield _refused(name, "MemberScore", pack({**MEMBER_SCORE, **changes}))


def _broken_values() -> Iterator[Case]:
    site = ("table_schema", "columns", 1)
    age = ("table_schema", "columns", 0)
    first = ("arrays", 0)
    cases: list[tuple[str, str, Any]] = [
        ("an extra field", "Receipt", {**RECEIPT, "note": "x"}),
        ("a missing field", "Receipt", without(RECEIPT, "party")),
        ("a missing field that has a default", "Acceptance",
            without(ACCEPTANCE, "accept_row_revealing_model")),
        ("nil where a value belongs", "Receipt", {**RECEIPT, "party": None}),
        ("a digest of 31 bytes", "Receipt", {**RECEIPT, "uplink_digest": bytes(31)}),
        ("a digest of 33 bytes", "Receipt", {**RECEIPT, "uplink_digest": bytes(33)}),
        ("an identifier in capitals", "Receipt", {**RECEIPT, "collaboration_id": COLLABORATION.upper()}),
        ("an identifier of 31 digits", "Receipt", {**RECEIPT, "collaboration_id": COLLABORATION[1:]}),
        ("a party with a line break", "Receipt", {**RECEIPT, "party": "hospital-b\n"}),
        ("a party with a slash", "Receipt", {**RECEIPT, "party": "../hospital-b"}),
        ("a party in capitals", "Receipt", {**RECEIPT, "party": "Hospital-B"}),
        ("a party that ends in a hyphen", "Receipt", {**RECEIPT, "party": "hospital-"}),
        ("a party of 64 characters", "Receipt", {**RECEIPT, "party": "a" * 64}),
        ("an empty party", "Receipt", {**RECEIPT, "party": ""}),
        ("a negative number of bytes", "Receipt", {**RECEIPT, "payload_bytes": -1}),
        ("a number of bytes beyond 2**53", "Receipt", {**RECEIPT, "payload_bytes": 2**53}),
        ("a time before 1970", "Receipt", {**RECEIPT, "received_at": -1}),
        ("a time after the year 9999", "Receipt", {**RECEIPT, "received_at": 253_402_300_800}),
        ("an unknown role", "InvitationTicket", {**TICKET, "role": "observer"}),
        ("an empty certificate request", "Enrolment", {**ENROLMENT, "csr": b""}),
        ("more certificates than a chain may have", "Enrolment", {**ENROLMENT, "chain": [b"one"] * 5}),
        ("an empty certificate in a chain", "Enrolment", {**ENROLMENT, "chain": [b""]}),
        ("an unknown sealing suite", "Acceptance", {**ACCEPTANCE, "sealing_suite": "rsa"}),
        ("an anchor in an unknown form", "SealedAnchor", {**SEALED_ANCHOR, "form": "table"}),
        ("terms of another schema version", "Terms", {**TERMS, "terms_schema": 2}),
        ("a party twice", "Terms", {**TERMS, "parties": ["hospital-a", "hospital-a"]}),
        ("no party", "Terms", {**TERMS, "parties": []}),
        ("a lead that is no party", "Terms", {**TERMS, "lead": "hospital-c"}),
        ("more latent dimensions than features", "Terms", {**TERMS, "latent_dim": 4}),
        ("no latent dimension", "Terms", {**TERMS, "latent_dim": 0}),
        ("a haar anchor with more rows than features", "Terms",
            {**TERMS, "anchor": {"kind": "haar", "rows": 4}}),
        ("a uniform anchor with fewer rows than features", "Terms",
            {**TERMS, "anchor": {"kind": "uniform", "rows": 2}}),
        ("an integer type for the representation", "Terms", {**TERMS, "rep_dtype": "i4"}),
        ("an unknown model", "Terms", changed(TERMS, "model", "kind", to="forest")),
        ("a learning rate of zero", "Terms", changed(TERMS, "model", "learning_rate", to=0.0)),
        ("a seed beyond 63 bits", "Terms", changed(TERMS, "alignment", "seed", to=2**63)),
        ("an unknown alignment", "Terms", changed(TERMS, "alignment", "method", to="best")),
        ("an invertible target for a method that keeps lengths", "Terms",
            changed(TERMS, "alignment", "target", to="invertible")),
        ("an empty title", "Terms", {**TERMS, "title": ""}),
        ("a title over its limit", "Terms", {**TERMS, "title": "a" * 201}),
        ("no column", "Terms", changed(TERMS, "table_schema", "columns", to=[])),
        ("a column of an unknown kind", "Terms", changed(TERMS, *age, "kind", to="text")),
        ("a numeric column with low above high", "Terms", changed(TERMS, *age, "low", to=121.0)),
        ("a numeric column with low equal to high", "Terms", changed(TERMS, *age, "low", to=120.0)),
        ("a numeric column too wide for a float", "Terms",
            changed(changed(TERMS, *age, "low", to=-1.7e308), *age, "high", to=1.7e308)),
        ("a numeric column that imputes outside its range", "Terms",
            changed(TERMS, *age, "impute", to=130.0)),
        ("a categorical column with one level", "Terms", changed(TERMS, *site, "levels", to=["north"])),
        ("a level twice", "Terms", changed(TERMS, *site, "levels", to=["north", "north"])),
        ("a categorical column that imputes another level", "Terms",
            changed(TERMS, *site, "impute", to="west")),
        ("a column twice", "Terms", changed(TERMS, *site, "name", to="age")),
        ("a label that is also a column", "Terms",
            changed(TERMS, "table_schema", "label_column", "name", to="age")),
        ("a class twice", "Terms",
            changed(TERMS, "table_schema", "label_column", "classes", to=["no", "no"])),
        ("arrays in another order", "UplinkManifest", {**UPLINK, "arrays": UPLINK["arrays"][::-1]}),
        ("two arrays instead of three", "UplinkManifest", {**UPLINK, "arrays": UPLINK["arrays"][:2]}),
        ("8-bit representations without their scales", "UplinkManifest",
            {**SCALED_UPLINK, "arrays": SCALED_UPLINK["arrays"][:3]}),
        ("8-bit representations with one scale alone", "UplinkManifest",
            {**SCALED_UPLINK, "arrays": SCALED_UPLINK["arrays"][:4]}),
        ("scales in another order", "UplinkManifest",
            {**SCALED_UPLINK, "arrays": [*SCALED_UPLINK["arrays"][:3], *SCALED_UPLINK["arrays"][:2:-1]]}),
        ("scales beside floats", "UplinkManifest",
            {**UPLINK, "arrays": [*UPLINK["arrays"], *SCALED_UPLINK["arrays"][3:]]}),
        ("a scale too few", "UplinkManifest", changed(SCALED_UPLINK, "arrays", 3, "shape", to=[1])),
        ("scales for rows", "UplinkManifest", changed(SCALED_UPLINK, "arrays", 4, "shape", to=[3])),
        ("scales in double precision", "UplinkManifest",
            changed(SCALED_UPLINK, "arrays", 3, "dtype", to="f8")),
        ("labels for other rows", "UplinkManifest", changed(UPLINK, "arrays", 2, "shape", to=[4])),
        ("labels as a matrix", "UplinkManifest", changed(UPLINK, "arrays", 2, "shape", to=[3, 1])),
        ("an array of three axes", "UplinkManifest", changed(UPLINK, *first, "shape", to=[3, 2, 1])),
        ("an array without axes", "UplinkManifest", changed(UPLINK, *first, "shape", to=[])),
        ("a negative axis", "UplinkManifest", changed(UPLINK, *first, "shape", to=[-1, 2])),
        ("more rows than 31 bits", "UplinkManifest", changed(UPLINK, *first, "shape", to=[2**31, 2])),
        ("an array over 1 TiB", "UplinkManifest",
            changed(UPLINK, *first, "shape", to=[2**31 - 1, 2**31 - 1])),
        ("an unknown number type", "UplinkManifest", changed(UPLINK, *first, "dtype", to="c8")),
        ("chunks that are no multiple of 64 KiB", "UplinkManifest", {**UPLINK, "chunk_bytes": 65537}),
        ("chunks below the limit", "UplinkManifest", {**UPLINK, "chunk_bytes": 0}),
        ("chunks above the limit", "UplinkManifest", {**UPLINK, "chunk_bytes": 4 * 2**20 + 65536}),
        ("an uplink that says nothing of privacy", "UplinkManifest", without(UPLINK, "privacy")),
        ("noise by halves", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "delta", to=None)),
        ("an epsilon of zero", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "epsilon", to=0.0)),
        ("a delta of one", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "delta", to=1.0)),
        ("rows clipped to nothing", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "clip", to=0.0)),
        ("a share above one", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "drop_below", to=1.5)),
        ("a basis perturbed by one", "UplinkManifest",
            changed(PRIVATE_UPLINK, "privacy", "perturb_basis", to=1.0)),
        ("a dither of nil", "UplinkManifest", changed(DITHERED_UPLINK, "privacy", "dither", to=None)),
        ("a dither of zero", "UplinkManifest", changed(DITHERED_UPLINK, "privacy", "dither", to=0.0)),
        ("a dither above a hundred", "UplinkManifest",
            changed(DITHERED_UPLINK, "privacy", "dither", to=101.0)),
        ("how many rows were dropped", "UplinkManifest",
            changed(UPLINK, "privacy", to={**PRIVACY, "dropped_rows": 3})),
        ("a change of basis as a vector", "DownlinkManifest", changed(DOWNLINK, *first, "shape", to=[4])),
        ("a change of basis of integers", "DownlinkManifest", changed(DOWNLINK, *first, "dtype", to="i8")),
        ("a model of floats", "DownlinkManifest", changed(DOWNLINK, "arrays", 1, "dtype", to="f4")),
        ("the arrays of an uplink", "DownlinkManifest",
            {**DOWNLINK, "arrays": UPLINK["arrays"][:2]}),
        ("anchor predictions beside a model", "DownlinkManifest",
            {**DOWNLINK, "arrays": [*PREDICTIONS_DOWNLINK["arrays"], DOWNLINK["arrays"][1]]}),
        ("anchor predictions in double precision", "DownlinkManifest",
            changed(PREDICTIONS_DOWNLINK, *first, "dtype", to="f8")),
        ("anchor predictions as a vector", "DownlinkManifest",
            changed(PREDICTIONS_DOWNLINK, *first, "shape", to=[6])),
        ("a change of basis alone", "DownlinkManifest", {**DOWNLINK, "arrays": DOWNLINK["arrays"][:1]}),
        ("anchor predictions for a haar anchor", "Terms", {**TERMS, "downlink": "anchor-predictions"}),
        ("anchor predictions for a uniform anchor", "Terms",
            {**TERMS, "downlink": "anchor-predictions", "anchor": {"kind": "uniform", "rows": 100}}),
        ("anchor predictions for fewer than two rows a feature", "Terms",
            {**TERMS, "downlink": "anchor-predictions", "anchor": {"kind": "gaussian", "rows": 5}}),
        ("a public anchor of more than 256 MiB", "Terms",
            {**TERMS, "anchor": {"kind": "public", "rows": 2**28 // 12 + 1}}),
        ("an unknown downlink", "Terms", {**TERMS, "downlink": "model"}),
        *messages_of_sums.broken(), *pinned.broken(), *suites.broken(), *groups.broken(), *joined.broken(),
        ("a forgetting statement of nothing", "ForgettingStatement", {**FORGETTING, "erased": []}),
        ("an evidence index of nothing", "EvidenceIndex", {**EVIDENCE, "files": []}),
        ("files of evidence in another order", "EvidenceIndex",
            {**EVIDENCE, "files": EVIDENCE["files"][::-1]}),
        ("a file of evidence twice", "EvidenceIndex", {**EVIDENCE, "files": EVIDENCE["files"][:1] * 2}),
        ("absent files in another order", "EvidenceIndex", {**EVIDENCE, "absent": ["b", "a"]}),
        ("a file that is there and absent", "EvidenceIndex", {**EVIDENCE, "absent": ["terms.odc"]}),
        ("a label over its limit", "Signed", {**SIGNED, "kind": "a" * 101}),
        ("an empty signature", "Signed", {**SIGNED, "signature": b""}),
    ]  # fmt: skip
    for name, kind, value in cases:
        yield _refused(name, kind, pack(value))


def _too_much() -> Iterator[Case]:
    """Cases whose bytes are given as parts, each a hexadecimal string and how often it comes."""

    def case(name: str, kind: str, verdict: str, *parts: tuple[bytes, int]) -> Case:
        return {
            "name": name,
            "kind": kind,
            "verdict": verdict,
            "parts": [[data.hex(), times] for data, times in parts],
        }

    malformed, over = "malformed-message", "limit-exceeded"
    head = b"\x81" + pack("collaboration_id")
    yield case("nested 17 deep", "Receipt", malformed, (head, 1), (b"\x91", 16), (b"\xc0", 1))
    before, after = pack({**ENROLMENT, "csr": b"CSR"}).split(b"\xc4\x03CSR")
    yield case("a certificate request over its limit", "Enrolment", malformed,
               (before + b"\xc6" + (65537).to_bytes(4, "big"), 1), (b"\0", 65537), (after, 1))  # fmt: skip
    for depth in (2000, 100_000):
        yield case(f"nested {depth} deep", "Receipt", malformed, (b"\x91", depth), (b"\xc0", 1))
    yield case("more bytes than a message may have", "Receipt", over, (b"\x00", 4 * 2**20 + 1))
    rows = b"\xdc" + (65535).to_bytes(2, "big")
    yield case("more maps than a message may have", "Receipt", over, (b"\x93", 1),
               *[(rows, 1), (b"\x80", 65535)] * 3)  # fmt: skip
    yield case("an array longer than any may be", "Receipt", malformed,
               (b"\xdd" + (65537).to_bytes(4, "big"), 1), (b"\xc0", 65537))  # fmt: skip
    keys = b"".join(pack(f"key{number:02}") + b"\xc0" for number in range(65))
    yield case("a map with more keys than any may have", "Receipt", malformed, (b"\xde\x00\x41" + keys, 1))
