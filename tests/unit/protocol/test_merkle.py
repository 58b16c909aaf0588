from __future__ import annotations

import pytest

from protocol.errors import LedgerError
from protocol.merkle import (
    check_consistency,
    check_inclusion,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_hash,
)

LEAVES = [
    leaf_hash(bytes.fromhex(leaf))
    for leaf in (
        *("", "00", "10", "2021", "3031", "40414243"),
        *("5051525354555657", "606162636465666768696a6b6c6d6e6f"),
    )
]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""Those of the tests of Certificate Transparency's own implementations, over the leaves above."""
MANY = [leaf_hash(bytes([number])) for number in range(23)]


@pytest.mark.parametrize(("size", "root"), ROOTS.items())
def test_roots_are_those_of_certificate_transparency(size: int, root: str) -> None:
    assert root_hash(LEAVES[:size]).hex() == root


@pytest.mark.parametrize("size", range(1, len(MANY) + 1))
def test_every_entry_is_proven_at_its_place_and_at_no_other(size: int) -> None:
    leaves, root = MANY[:size], root_hash(MANY[:size])
    for index, leaf in enumerate(leaves):
        proof = inclusion_proof(index, leaves)
        check_inclusion(leaf, index, size, root, proof)
        for wrong in {0, size - 1, index + 1} - {index}:
            with pytest.raises(LedgerError):
                check_inclusion(leaf, wrong, size, root, proof)
        with pytest.raises(LedgerError):
            check_inclusion(leaf_hash(b"another"), index, size, root, proof)
        with pytest.raises(LedgerError):
            check_inclusion(leaf, index, size, root, [*proof, bytes(32)])
        if proof:
            with pytest.raises(LedgerError):
                check_inclusion(leaf, index, size, root, proof[:-1])


@pytest.mark.parametrize("later", range(1, len(MANY) + 1))
def test_every_beginning_is_proven_and_no_other_history(later: int) -> None:
    after = root_hash(MANY[:later])
    for earlier in range(1, later + 1):
        before, proof = root_hash(MANY[:earlier]), consistency_proof(earlier, MANY[:later])
        check_consistency(earlier, later, before, after, proof)
        rewritten = root_hash([leaf_hash(b"another"), *MANY[1:earlier]])
        for one, other in ((rewritten, after), (before, rewritten)):
            with pytest.raises(LedgerError):
                check_consistency(earlier, later, one, other, proof)
        for spoilt in ([*proof, bytes(32)], proof[:-1] if proof else [after]):
            with pytest.raises(LedgerError):
                check_consistency(earlier, later, before, after, spoilt)


@pytest.mark.parametrize(("earlier", "later"), [(0, 3), (4, 3), (-1, 3)])
def test_nothing_is_no_beginning_and_no_end_comes_before_it(earlier: int, later: int) -> None:
    with pytest.raises(LedgerError, match="no beginning"):
        check_consistency(earlier, later, ROOTS[0].encode(), bytes(32), [])
