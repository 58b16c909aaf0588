"""Terms that join the rows of two institutions, what people read, uplinks, and hashes of row keys."""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Any, Final

from tests.vectors.absent import WARNINGS
from tests.vectors.examples import (
    COLLABORATION,
    LATE_TERMS,
    SEED,
    TERMS,
    TERMS_2,
    UPLINK,
    Case,
    array,
    changed,
)
from tests.vectors.keys import hkdf
from tests.vectors.packing import pack
from tests.vectors.sums import SUMS_TERMS

GROUP: Final[dict[str, Any]] = {
    "row_key": "record",
    "parties": ["hospital-b", "hospital-a"],
    "latent_dims": [2, 1],
    "labels": "hospital-a",
}
"""hospital-b has the three features of the column levels, hospital-a the two others."""
LACKING: Final = [
    {"party": "hospital-a", "columns": ["levels"]},
    {"party": "hospital-b", "columns": ["rank", "range"]},
]
JOINED_TERMS: Final[dict[str, Any]] = {
    **TERMS_2,
    "latent_dim": 3,
    "hold_out": 0.0,
    "returns_scores": False,
    "absent_columns": LACKING,
    "joined_rows": [GROUP],
}
_LINE: Final = (
    "Joined rows: hospital-b, hospital-a hold different columns of the same rows, which the column record"
    " names: hospital-b all but rank, range; hospital-a all but levels. What an institution does not hold of"
    " them is not read, also where its table has it. Each of them sends a keyed hash of the column record"
    " with each row, and its rows in the order of the hashes. The analyst puts the rows side by side that all"
    " of them have, and trains on these alone. Of a row they send hospital-b 2, hospital-a 1; the labels are"
    " those of hospital-a alone. The analyst learns which rows these tables have in common, and every"
    " institution reads how many. Whoever of them predicts for a row needs a part from each other of them,"
    " with the hash of the row and 3 numbers."
)
_WARNING: Final = (
    "Warning: joined rows: every institution has the key of the hashes. The analyst and one of them together"
    " can try whom a row is about, by hashing every record that may be, and so can whoever gets a part. The"
    " analyst alone cannot; it sees that a row is in several tables.\n"
)


_SENT = (
    "Of joined rows an institution sends only what stands above: as many numbers of a row, made of the"
    " columns that it holds, and the labels if they are its own."
)


def joined_text(text: str) -> str:
    """Return what people read of `JOINED_TERMS`, from the text of the same terms without groups."""
    before, after = text.split("Warning: nothing is projected away: ")
    lines = (before + WARNINGS.split("\n")[0] + "\n" + _WARNING + after.split("\n", 1)[1]).split("\n")
    kept = [line for line in lines if not line.startswith(("This institution keeps 0.2", "It may send the"))]
    return (
        "\n".join(kept)
        .replace("5 numbers (20 bytes)", "3 numbers (12 bytes)")
        .replace("(100 bytes)", "(60 bytes)")
        .replace("along the 5 leading", "along the 3 leading")
        .replace("\nThe model", f"\n{_LINE}\nThe model", 1)
        .replace("\nProjections are rounded", f"\n{_SENT}\nProjections are rounded")
    )


def _grouped(**changes: Any) -> dict[str, Any]:
    return {**JOINED_TERMS, "joined_rows": [{**GROUP, **changes}]}


def valid_joined() -> list[tuple[str, dict[str, Any]]]:
    """Return terms that join rows."""
    third = {**JOINED_TERMS, "parties": [*TERMS["parties"], "hospital-c"]}
    return [
        ("terms that join the rows of two institutions", JOINED_TERMS),
        ("the same and a third institution with all columns", third),
        ("the same, and the third is a late consumer", {**third, "late_consumers": ["hospital-c"]}),
    ]


def broken_joined() -> list[tuple[str, dict[str, Any]]]:
    """Return terms that break a rule of joined rows."""
    of_third = [LACKING[0], {**LACKING[1], "party": "hospital-c"}]
    late = {
        **_grouped(parties=["hospital-c", "hospital-a"]),
        "parties": LATE_TERMS["parties"],
        "late_consumers": ["hospital-c"],
        "absent_columns": of_third,
    }
    imakura = changed(JOINED_TERMS, "alignment", "method", to="imakura")
    public = {"kind": "public", "rows": 50}
    anchored = {**JOINED_TERMS, "anchor": {"kind": "gaussian", "rows": 200}, "downlink": "anchor-predictions"}
    shared = {"largest_distance": 0.25, "least_parties": 2}
    of_three = {**JOINED_TERMS, "parties": [*TERMS["parties"], "hospital-c"]}
    return [
        ("an empty list of joined rows", {**JOINED_TERMS, "joined_rows": []}),
        ("terms of schema 1 with joined rows", {**TERMS, "joined_rows": [GROUP]}),
        ("rows joined with nobody's",
            _grouped(parties=["hospital-a"], latent_dims=[3])),
        ("rows joined with their own",
            _grouped(parties=["hospital-a", "hospital-a"], latent_dims=[1, 2])),
        ("rows joined with those of no party", _grouped(parties=["hospital-z", "hospital-a"])),
        ("rows joined with those of a late consumer", late),
        ("labels of a party that is none of the group",
            {**of_three, "joined_rows": [{**GROUP, "labels": "hospital-c"}]}),
        ("a party in two groups of joined rows", {**JOINED_TERMS, "joined_rows": [GROUP, GROUP]}),
        ("a row key that is a column", _grouped(row_key="rank")),
        ("a row key that is the label", _grouped(row_key="readmitted")),
        ("a column that both have",
            {**JOINED_TERMS, "absent_columns": changed(LACKING, 1, "columns", to=["rank"])}),
        ("a column that only a third institution has",
            {**of_three, "absent_columns": changed(LACKING, 0, "columns", to=["levels", "range"])}),
        ("too few numbers for the parties of a group", _grouped(latent_dims=[3])),
        ("too many numbers for the parties of a group", _grouped(latent_dims=[1, 1, 1])),
        ("no number of a row of a party", _grouped(latent_dims=[3, 0])),
        ("numbers of a row that do not add up", _grouped(latent_dims=[1, 1])),
        ("more numbers of a row than a party has features",
            {**_grouped(latent_dims=[1, 3]), "latent_dim": 4}),
        ("joined rows that are kept back", {**JOINED_TERMS, "hold_out": 0.2}),
        ("joined rows of unlike many numbers", {**imakura, "least_latent_dim": 1}),
        ("joined rows behind maps", {**imakura, "anchor": public, "own_maps": ["onnx"]}),
        ("joined rows and predictions for the anchor", {**anchored, "absent_columns": []}),
        ("joined rows and models of groups", {**JOINED_TERMS, "model_groups": shared}),
        ("joined rows of sums", {**SUMS_TERMS, "joined_rows": [GROUP]}),
    ]  # fmt: skip


KEY_LABELS: Final = ("odc/v1/row-keys", "odc/v1/row-part")
ROW_KEYS: Final = (
    ("P-001", "P-001"),
    (" P-001\u00a0", "P-001"),
    ("p-001", "p-001"),
    ("007", "007"),
    ("7", "7"),
    ("7.0", "7"),
    ("-7.00", "-7"),
    ("7.5", "7.5"),
    ("\u0045\u0301milie", "\u00c9milie"),
    ("\u00c9milie", "\u00c9milie"),
)
"""Texts of a field, and what is hashed of each."""


def row_keys() -> list[Case]:
    """Return hashes of row keys under the keys of two groups."""
    found = []
    for parties in (["hospital-b", "hospital-a"], ["hospital-c", "lab-a", "lab-b"]):
        keys = [hkdf(SEED, f"{label}\0{COLLABORATION}\0{','.join(parties)}") for label in KEY_LABELS]
        found.append(
            {
                "seed": SEED.hex(),
                "collaboration_id": COLLABORATION,
                "parties": parties,
                "hashing_key": keys[0].hex(),
                "part_key": keys[1].hex(),
                "hashes": [
                    [field, hmac.digest(keys[0], text.encode(), "sha256")[:16].hex()]
                    for field, text in ROW_KEYS
                ],
            }
        )
    return found


def _sent(party: str, *, width: int, labels: int, keys: bool = True, rows: int = 3) -> dict[str, Any]:
    arrays = [
        array("rep", "f4", (rows, width), struct.pack(f"<{rows * width}f", *[0.5] * (rows * width))),
        array("anchor_rep", "f4", (5, width), struct.pack(f"<{5 * width}f", *[0.25] * (5 * width))),
        array("labels", "u1", (labels,), bytes(labels)),
    ]
    hashes = bytes(range(16 * rows))
    return {
        **UPLINK,
        "party": party,
        "terms_digest": hashlib.sha256(pack(JOINED_TERMS)).digest(),
        "arrays": [*arrays, array("row_keys", "u1", (rows, 16), hashes)] if keys else arrays,
        "privacy": {**UPLINK["privacy"], "dither": 0.5},
    }


JOINED_UPLINK: Final = _sent("hospital-a", width=1, labels=3)
UNLABELLED_UPLINK: Final = _sent("hospital-b", width=2, labels=0)


def uplinks_of_joined() -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Return uplinks of joined rows, and their terms."""
    refused = "terms-mismatch"
    return [
        ("joined rows with labels", "valid", JOINED_UPLINK, JOINED_TERMS),
        ("joined rows of which another has the labels", "valid", UNLABELLED_UPLINK, JOINED_TERMS),
        ("joined rows without their labels", refused, _sent("hospital-a", width=1, labels=0), JOINED_TERMS),
        ("labels that another has", refused, _sent("hospital-b", width=2, labels=3), JOINED_TERMS),
        ("joined rows without row keys", refused,
            _sent("hospital-a", width=1, labels=3, keys=False), JOINED_TERMS),
        ("no rows to join", refused, _sent("hospital-b", width=2, labels=0, rows=0), JOINED_TERMS),
        ("joined rows of another width", "shape-mismatch",
            _sent("hospital-b", width=1, labels=0), JOINED_TERMS),
        ("row keys of rows that are not joined", refused, _sent("hospital-a", width=5, labels=3), TERMS_2),
    ]  # fmt: skip


Named = tuple[str, str, dict[str, Any]]


def valid() -> list[Named]:
    """Return manifests of joined rows, each with its name and kind."""
    return [
        ("uplink manifest of joined rows", "UplinkManifest", JOINED_UPLINK),
        ("uplink manifest of joined rows without labels", "UplinkManifest", UNLABELLED_UPLINK),
    ]


def broken() -> list[Named]:
    """Return manifests whose row keys are none."""
    keys = JOINED_UPLINK["arrays"][3]
    before = {**JOINED_UPLINK, "arrays": [*JOINED_UPLINK["arrays"][:2], keys, JOINED_UPLINK["arrays"][2]]}
    found = {
        "row keys of other rows": changed(JOINED_UPLINK, "arrays", 3, "shape", to=[2, 16]),
        "row keys of another length": changed(JOINED_UPLINK, "arrays", 3, "shape", to=[3, 15]),
        "row keys of another type": changed(JOINED_UPLINK, "arrays", 3, "dtype", to="i1"),
        "row keys before the labels": before,
        "fewer labels than joined rows": changed(JOINED_UPLINK, "arrays", 2, "shape", to=[2]),
        "no labels of rows that are not joined": changed(UPLINK, "arrays", 2, "shape", to=[0]),
    }
    return [(name, "UplinkManifest", manifest) for name, manifest in found.items()]
