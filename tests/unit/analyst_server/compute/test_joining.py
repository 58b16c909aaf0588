"""Blocks of several parties, put side by side by the hashes of their rows: beside a slow definition."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.blobs import DamagedBlobError, MemoryBlobs, StoredArray, store_array, store_blocks
from analyst_server.compute import joining
from analyst_server.compute.joining import JoinedParties, join_rows
from analyst_server.compute.sequence import PartyArrays, RoundSpec
from protocol.alignment_terms import AlignmentTerms
from protocol.joined_rows import JoinedRows
from protocol.labels import Label
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.model_terms import LogisticTerms

PARTIES = ("hospital-a", "lab-a", "lab-b")
WIDTHS = (2, 1, 3)
GROUP = JoinedRows(row_key="pid", parties=PARTIES, latent_dims=WIDTHS, labels="lab-a")
DTYPES: dict[str, Any] = {"f2": np.float16, "f4": np.float32, "f8": np.float64, "i1": np.int8}


def hash_of(number: int) -> bytes:
    """A hash that ends in a zero byte now and then, and begins with one."""
    return hashlib.sha256(b"%d" % number).digest()[:14] + bytes([number % 2, number % 3])


class Sent:
    """What three parties have sent of some of fifty rows, in memory and at the analyst."""

    def __init__(self, dtype: str = "f4", *, rows: int = 50, seed: int = 0) -> None:
        self.blobs = MemoryBlobs()
        self.of: dict[str, dict[int, NDArray[Any]]] = {}
        self.arrays: dict[str, PartyArrays] = {}
        rng = np.random.default_rng(seed)
        for party, width in zip(PARTIES, WIDTHS, strict=True):
            mine = sorted(np.flatnonzero(rng.random(rows) < 0.8).tolist(), key=hash_of)
            self.send(party, mine, rng.integers(-100, 100, (len(mine), width)).astype(DTYPES[dtype]))

    def send(self, party: str, mine: list[int], rep: NDArray[Any], keys: list[bytes] | None = None) -> None:
        keys = [hash_of(number) for number in mine] if keys is None else keys
        width = rep.shape[1]
        arrays = {
            "rep": rep,
            "anchor_rep": np.full((4, width), len(party), rep.dtype),
            "labels": np.array([number % 2 for number in mine] if party == GROUP.labels else [], np.uint8),
            "row_keys": np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16),
        }
        if rep.dtype == np.int8:
            arrays |= {
                name: np.arange(1, width + 1, dtype=np.float32) for name in ("rep_scale", "anchor_rep_scale")
            }
        self.of[party] = dict(zip(mine, rep, strict=True))
        stored = {name: store_array(self.blobs, f"{party}-{name}", array) for name, array in arrays.items()}
        self.arrays[party] = PartyArrays(party, **stored, dither=0.1 * width)

    @property
    def spec(self) -> RoundSpec:
        return RoundSpec(
            parties=tuple(self.arrays.values()),
            label=Label(name="y", classes=("no", "yes")),
            alignment=AlignmentTerms(),
            model=LogisticTerms(),
            anchor_is_isotropic=True,
            folder="work",
            joined_rows=(GROUP,),
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_all_have_stand_side_by_side(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "AT_ONCE_ROWS", 7)
    sent = Sent(dtype)
    (found,) = join_rows(sent.spec, sent.blobs)
    common = sorted(set.intersection(*(set(rows) for rows in sent.of.values())), key=hash_of)
    expected = [np.concatenate([sent.of[party][number] for party in PARTIES]) for number in common]
    assert 10 < len(common) < 45
    np.testing.assert_array_equal(found.arrays.rep.open(sent.blobs), expected)
    assert found.arrays.rep.dtype == dtype
    assert found.arrays.labels.open(sent.blobs).tolist() == [number % 2 for number in common]
    np.testing.assert_array_equal(
        found.arrays.anchor_rep.open(sent.blobs)[0], np.repeat([len(party) for party in PARTIES], WIDTHS)
    )
    assert (found.arrays.party, found.rows) == ("lab-a", len(common))
    assert found.sent == {party: len(rows) for party, rows in sent.of.items()}
    assert found.arrays.dither == pytest.approx(0.1)  # the least
    if dtype == "i1":
        assert found.arrays.rep_scale is not None
        assert found.arrays.rep_scale.open(sent.blobs).tolist() == [1, 2, 1, 1, 2, 3]


def test_a_group_stands_in_the_place_of_its_parties() -> None:
    sent = Sent()
    alone = PartyArrays("zz", *(StoredArray("none", 0, "f4", (1000, 2)) for _ in range(3)))
    few = PartyArrays("aa", *(StoredArray("none", 0, "f4", (1, 2)) for _ in range(3)))
    spec = RoundSpec(**{**vars(sent.spec), "parties": (*sent.spec.parties, few, alone)})
    found = join_rows(spec, sent.blobs)
    joined = spec.with_joined(group.arrays for group in found)
    assert [party.party for party in joined.parties] == ["zz", "lab-a", "aa"]
    assert joined.joined_rows == ()


def test_what_was_joined_is_kept_for_the_judgement_as_it_is() -> None:
    sent = Sent("i1")
    (found,) = join_rows(sent.spec, sent.blobs)
    assert JoinedParties.from_kept(found.kept()) == found
    assert found.as_json() == {"labels": "lab-a", "rows": found.rows, "sent": found.sent}


@pytest.mark.parametrize("keys", [[2, 1], [1, 1]], ids=["descending", "twice"])
def test_keys_out_of_order_or_twice_are_refused_with_the_party(keys: list[int]) -> None:
    sent, ordered = Sent(), sorted([1, 2], key=hash_of)
    hashes = [hash_of(ordered[number - 1]) for number in keys]
    sent.send("lab-b", [1, 2], np.ones((2, 3), np.float32), hashes)
    with pytest.raises(ValueError, match="the row keys of lab-b are not ascending, each once: see row 2"):
        join_rows(sent.spec, sent.blobs)


def test_no_row_in_common_is_an_error_that_names_the_column() -> None:
    sent = Sent()
    sent.send("lab-b", [1000], np.ones((1, 3), np.float32))
    with pytest.raises(ValueError, match=r"hospital-a, lab-a, lab-b have no row in common.*\(pid\)"):
        join_rows(sent.spec, sent.blobs)


def test_a_group_without_one_of_its_parties_is_an_error() -> None:
    sent = Sent()
    del sent.arrays["lab-b"]
    with pytest.raises(ValueError, match="are joined, and lab-b has sent none"):
        join_rows(sent.spec, sent.blobs)


def test_damaged_keys_are_found_before_rows_are_joined() -> None:
    sent = Sent()
    sent.blobs.append("lab-b-row_keys", 0, b"other bytes")
    sent.blobs.commit("lab-b-row_keys")
    with pytest.raises(DamagedBlobError):
        join_rows(sent.spec, sent.blobs)


@pytest.mark.parametrize("rows", [0, 1, 3 * DEFAULT_CHUNK_BYTES // 16 + 5])
def test_a_matrix_in_blocks_is_stored_as_one_that_is_whole(rows: int) -> None:
    whole, blobs = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4), MemoryBlobs()
    blocks = [whole[: rows // 3], whole[rows // 3 :]]
    found = store_blocks(blobs, "blocks", iter(blocks), (rows, 4), whole.dtype)
    assert found.digest == store_array(blobs, "whole", whole).digest
    np.testing.assert_array_equal(found.open(blobs), whole)
