"""Merkle trees over the entries of a ledger (RFC 6962, section 2.1): roots, and proofs for who has no entry.

A leaf is the canonical bytes of an entry. The functions take leaf hashes; docs/protocol.md, "Checkpoint".
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from protocol.errors import LedgerError


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\x00" + leaf).digest()


def root_hash(leaves: Sequence[bytes]) -> bytes:
    """Return the root of a tree, from the hashes of its leaves."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    left = _left(len(leaves))
    return _node(root_hash(leaves[:left]), root_hash(leaves[left:]))


def inclusion_proof(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """Return the audit path of a leaf, from the leaf up (RFC 6962, 2.1.1)."""
    if len(leaves) <= 1:
        return []
    left = _left(len(leaves))
    if index < left:
        return [*inclusion_proof(index, leaves[:left]), root_hash(leaves[left:])]
    return [*inclusion_proof(index - left, leaves[left:]), root_hash(leaves[:left])]


def consistency_proof(size: int, leaves: Sequence[bytes]) -> list[bytes]:
    """Return the proof that a tree of the first ``size`` leaves became this one (RFC 6962, 2.1.2)."""
    return _subproof(size, leaves, is_whole=True) if 0 < size < len(leaves) else []


def check_inclusion(leaf: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]) -> None:
    """Raise `LedgerError` unless a leaf hash is number ``index`` of the tree with this root.

    RFC 9162, 2.1.3.2.
    """
    if not 0 <= index < size:
        raise LedgerError(f"there is no entry {index} among {size}")
    number, last, found = index, size - 1, leaf
    for step in proof:
        if last == 0:
            raise LedgerError(f"entry {index}: its proof is too long")
        is_right, number, last = _climb(number, last)
        found = _node(step, found) if is_right else _node(found, step)
    if last or found != root:
        raise LedgerError(f"entry {index}: is not proven to be in the ledger of {size} entries")


def check_consistency(earlier: int, later: int, before: bytes, after: bytes, proof: Sequence[bytes]) -> None:
    """Raise `LedgerError` unless a tree began as an earlier one (RFC 9162, 2.1.4.2).

    ``before`` and ``after`` are the roots of the trees with ``earlier`` and ``later`` leaves.
    """
    if not 0 < earlier <= later:
        raise LedgerError(f"a ledger of {earlier} entries is no beginning of one with {later}")
    if earlier == later:
        is_proven = before == after and not proof
    else:
        is_proven = _grown(earlier, later, before, proof) == (before, after)
    if not is_proven:
        raise LedgerError(
            f"the ledger of {later} entries is not proven to begin with that of {earlier}:"
            " it may have been rewritten"
        )


def _grown(earlier: int, later: int, before: bytes, proof: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the two roots that a proof leads to; None if it has too many hashes, or too few."""
    path = [before, *proof] if earlier & (earlier - 1) == 0 else list(proof)
    number, last = earlier - 1, later - 1
    while number & 1:
        number, last = number >> 1, last >> 1
    if not path:
        return None
    old = new = path[0]
    for step in path[1:]:
        if last == 0:
            return None
        is_right, number, last = _climb(number, last)
        if is_right:
            old, new = _node(step, old), _node(step, new)
        else:
            new = _node(new, step)
    return None if last else (old, new)


def _climb(number: int, last: int) -> tuple[bool, int, int]:
    """Return whether a node's sibling is to its left, and the numbers of the parent and the last there."""
    is_right = bool(number & 1) or number == last
    if is_right:
        while not number & 1 and number:
            number, last = number >> 1, last >> 1
    return is_right, number >> 1, last >> 1


def _subproof(size: int, leaves: Sequence[bytes], *, is_whole: bool) -> list[bytes]:
    if size == len(leaves):
        return [] if is_whole else [root_hash(leaves)]
    left = _left(len(leaves))
    if size <= left:
        return [*_subproof(size, leaves[:left], is_whole=is_whole), root_hash(leaves[left:])]
    return [*_subproof(size - left, leaves[left:], is_whole=False), root_hash(leaves[:left])]


def _left(size: int) -> int:
    """Return the largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()
