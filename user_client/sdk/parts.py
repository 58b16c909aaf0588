"""Predict for joined rows: each member of a group computes its part, and one of them adds the parts.

h takes ``sum_j Y_j F_j G_j`` over the members. A part is ``Y_j F_j G_j`` with the hashes of the rows, in the
order of these, under a MAC whose key all members of the round can derive (docs/protocol.md, "Parts of a
prediction"). It goes from one institution to another, and neither to the analyst nor through it.
"""

from __future__ import annotations

import hmac
import logging
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.codec import decode, digest, encode
from protocol.errors import InputError, ProtocolError, UnreadableFileError
from protocol.joined_rows import ROW_KEY_BYTES, JoinedRows
from protocol.messages import DownlinkManifest
from protocol.row_keys import hashing_key, part_key
from protocol.row_parts import HEAD_LENGTH_BYTES, MAC_BYTES, MAGIC, MAX_PART_HEAD_BYTES, RowPart
from protocol.terms import Terms
from user_client.custody.round_directory import RoundDirectory
from user_client.errors import FieldError, PartRefusedError, PartsNeededError
from user_client.sdk.anchor import stored_seed
from user_client.sdk.joined_rows import own_group
from user_client.sdk.policy import Policy
from user_client.sdk.predictor import Predictor
from user_client.sdk.terms import accepted_terms, own_party, own_schema
from user_client.sdk.unfit_rows import UnfitRows
from user_client.tables import RowKeys, gathered, hashes_of, text_of

log = logging.getLogger(__name__)

Hashes = NDArray[np.bytes_]
_LENGTH: Final = struct.Struct("<I")
_MOST_BEFORE_ROWS_BYTES: Final = len(MAGIC) + HEAD_LENGTH_BYTES + MAX_PART_HEAD_BYTES


@dataclass(frozen=True, repr=False)
class Part:
    """What one member has computed of its columns.

    Attributes
    ----------
    hashes : (n,) ndarray of bytes
        Ascending, each once.
    aligned : (n, l) ndarray of float32
        ``Y_j F_j G_j``.
    """

    party: str
    hashes: Hashes
    aligned: NDArray[np.float32]

    def __repr__(self) -> str:
        return f"<Part of {self.party}, {len(self.hashes)} rows>"


def make_part(directory: RoundDirectory, parts: Iterable[pa.Table]) -> tuple[bytes, int]:
    """Return our part for the rows of a table, as a file, and how many rows it is of.

    All of it is in memory: 4 l + 16 bytes a row, several times.

    Raises
    ------
    InputError
        If our rows are joined with nobody's, or the table has no rows.
    NotPreparedError
        Before `receive`, or if the secret basis or the key to the anchor was erased.
    PolicyError
        If our policy lets nobody have one of our columns, or hashes of what names a row.
    TableError
        If the table does not fit the terms, or two rows have the same key.
    """
    group, manifest = _required(own_group(directory)), directory.load(DownlinkManifest)
    if (policy := Policy.of(directory.home)) is not None:
        policy.check_schema(own_schema(directory))
        policy.check_row_key(group)
    predictor, terms = Predictor(directory), accepted_terms(directory)
    seed = stored_seed(directory)
    key = hashing_key(seed, terms.collaboration_id, group)
    keys, aligned, rows_before = RowKeys(key, group.row_key, terms.table_schema.missing), [], 0
    for part in gathered(parts, predictor.schema.width):
        try:
            if rows_before == 0:
                predictor.warn_of_strange(part)
            keys.look(part)()
            aligned.append(predictor.align(part))
        except FieldError as error:
            raise error.in_whole_table(rows_before) from None
        rows_before += part.num_rows
    hashes = keys.hashes()
    if not len(hashes):
        raise InputError("this table has no rows to make a part of")
    order = np.argsort(hashes, kind="stable")
    head = encode(
        RowPart(
            collaboration_id=terms.collaboration_id,
            terms_digest=digest(terms),
            party=own_party(directory),
            released=manifest.released or b"",
            rows=len(hashes),
            latent_dim=terms.latent_dim,
        )
    )
    numbers = np.concatenate(aligned)[order].astype("<f4").tobytes()
    whole = b"".join((MAGIC, _LENGTH.pack(len(head)), head, hashes[order].tobytes(), numbers))
    return whole + mac_of(seed, terms.collaboration_id, group, whole), len(hashes)


def _required(group: JoinedRows | None) -> JoinedRows:
    if group is None:
        error = InputError("under these terms our rows are joined with nobody's: there are no parts")
        error.hint = "predict with `odc predict TABLE`"
        raise error
    return group


def mac_of(seed: bytes, collaboration_id: str, group: JoinedRows, whole: bytes | memoryview) -> bytes:
    """Return the MAC of a part, over all that comes before it."""
    return hmac.digest(part_key(seed, collaboration_id, group), whole, "sha256")


class JoinedPredictor:
    """The model of one round with the parts of all other members of our group, for their rows.

    Raises
    ------
    PartsNeededError
        If the part of a member is missing.
    PartRefusedError
        If a file is no part of this round, of somebody else or ourselves, or was changed.
    InputError
        If our rows are joined with nobody's.

    Attributes
    ----------
    predictor : Predictor
    left_out : int
        Rows of the tables so far that are not in the parts of all others, and are left out.
    """

    def __init__(self, directory: RoundDirectory, files: Sequence[Path]) -> None:
        self._group = _required(own_group(directory))
        self.predictor = Predictor(directory)
        self.left_out = 0
        ours = ForUs.of(directory)
        self._key = hashing_key(ours.seed, ours.terms.collaboration_id, self._group)
        self._parts: list[Part] = []
        for path in files:
            part = ours.read(_content_of(path), str(path))
            if part.party in [each.party for each in self._parts]:
                raise InputError(f"{path} is a second part of {part.party}: name one of each institution")
            self._parts.append(part)
        given = [part.party for part in self._parts]
        if missing := [party for party in self._group.others(ours.party) if party not in given]:
            raise PartsNeededError(
                f"a prediction needs the parts of {', '.join(missing)}, who hold other columns of these rows"
            )

    def __repr__(self) -> str:
        return f"<JoinedPredictor of {', '.join(self._group.parties)}>"

    def predict_parts(
        self,
        parts: Iterable[pa.Table],
        *,
        keep: Sequence[str] = (),
        thresholds: Mapping[str, float] | None = None,
        coverage: float | None = None,
        unfit: UnfitRows | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the predictions for the parts of one table that all other members have made a part of.

        The row key stands before each, then the columns to keep. A key may be in the table more than once.

        Raises what `Predictor.predict_parts` does, `PartsNeededError` if no row is in all parts, and
        `InputError` with ``unfit``: the others have made their parts of whole tables.
        """
        if unfit is not None:
            raise InputError(
                "where rows are joined, each has to fit: leave out --skip-unfit, and correct the table"
            )
        rows_before = predicted = 0
        for table in gathered(parts, self.predictor.schema.width):
            try:
                found = self._predicted(table, keep, thresholds, coverage, looks=rows_before == 0)
            except FieldError as error:
                raise error.in_whole_table(rows_before) from None
            rows_before, predicted = rows_before + table.num_rows, predicted + found.num_rows
            yield found
        self.left_out = rows_before - predicted
        if rows_before and not predicted:
            raise PartsNeededError(
                f"no row of this table is in the parts of {', '.join(each.party for each in self._parts)}"
            )
        if self.left_out:
            log.warning(
                "%d of %d rows are left out: they are not in the parts of all others",
                self.left_out,
                rows_before,
            )

    def _predicted(
        self,
        table: pa.Table,
        keep: Sequence[str],
        thresholds: Mapping[str, float] | None,
        coverage: float | None,
        *,
        looks: bool,
    ) -> pa.Table:
        name, missing = self._group.row_key, self.predictor.schema.missing
        hashes = np.frombuffer(hashes_of(table, self._key, name, missing), f"S{ROW_KEY_BYTES}")
        places = [_places(part.hashes, hashes) for part in self._parts]
        there = np.all([place >= 0 for place in places], axis=0)
        chosen = table.filter(pa.array(there))
        try:
            if looks:
                self.predictor.warn_of_strange(chosen)
            aligned = self.predictor.align(chosen)
        except FieldError as error:
            raise error.in_rows(np.flatnonzero(there) + 1) from None
        for part, place in zip(self._parts, places, strict=True):
            aligned = aligned + part.aligned[place[there]]
        found = self.predictor.predict_aligned(aligned, thresholds=thresholds, coverage=coverage).columns()
        columns: dict[str, Any] = {each: text_of(chosen, each) for each in dict.fromkeys((name, *keep))}
        if taken := columns.keys() & found.keys():
            raise InputError(
                f"column '{taken.pop()}' cannot be kept: the predictions have one of this name; rename it"
            )
        return pa.table(columns | found)


def _places(known: Hashes, wanted: Hashes) -> NDArray[np.int64]:
    """Return where each wanted hash stands among ascending ones, -1 for one that is not there."""
    places = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[places] == wanted, places, -1)


@dataclass(frozen=True, repr=False)
class ForUs:
    """What a part for us has to be: of this round and model, and of another member of our group."""

    seed: bytes
    terms: Terms
    party: str
    released: bytes | None

    @classmethod
    def of(cls, directory: RoundDirectory) -> Self:
        """Return it for a round whose downlink we have; raises `NotPreparedError`."""
        manifest, terms = directory.load(DownlinkManifest), accepted_terms(directory)
        return cls(stored_seed(directory), terms, own_party(directory), manifest.released)

    @property
    def group(self) -> JoinedRows:
        """Our group; raises `InputError` if our rows are joined with nobody's."""
        return _required(self.terms.group_of(self.party))

    def read(self, content: bytes, name: str) -> Part:
        """Return the part in a file, whose MAC is checked before what is in it.

        Raises `PartRefusedError`, which begins with ``name``.
        """
        whole, others = memoryview(content), self.group.others(self.party)
        head, start = _head_of(name, whole)
        if (head.collaboration_id, head.terms_digest) != (self.terms.collaboration_id, digest(self.terms)):
            raise PartRefusedError(f"{name} is a part of another collaboration")
        if head.party not in others:
            raise PartRefusedError(f"{name} is a part of {head.party}, not of one of {', '.join(others)}")
        if len(whole) - start != head.payload_bytes or head.latent_dim != self.terms.latent_dim:
            raise PartRefusedError(f"{name} is not whole")
        end = len(whole) - MAC_BYTES
        expected = mac_of(self.seed, self.terms.collaboration_id, self.group, whole[:end])
        if not hmac.compare_digest(expected, bytes(whole[end:])):
            raise PartRefusedError(
                f"{name} was changed, or made by somebody who is not of this collaboration"
            )
        if head.released != self.released:
            raise PartRefusedError(f"{name} was made with another model than ours")
        middle = start + ROW_KEY_BYTES * head.rows
        hashes = np.frombuffer(whole[start:middle], f"S{ROW_KEY_BYTES}")
        aligned = np.frombuffer(whole[middle:end], "<f4").reshape(head.rows, head.latent_dim)
        if not (hashes[1:] > hashes[:-1]).all() or not np.isfinite(aligned).all():
            raise PartRefusedError(f"{name} has rows out of order, or numbers that are not finite")
        return Part(head.party, hashes, aligned)


def _content_of(path: Path) -> bytes:
    """Return what is in the file of a part; one that is none, or not as long as it says, is not read.

    Raises `PartRefusedError`, and `UnreadableFileError` if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            head, start = _head_of(str(path), memoryview(file.read(_MOST_BEFORE_ROWS_BYTES)))
            if os.fstat(file.fileno()).st_size != start + head.payload_bytes:
                raise PartRefusedError(f"{path} is not whole")
            file.seek(0)
            return file.read()
    except OSError as error:
        raise UnreadableFileError(path, error.strerror or "unknown reason") from None


def _head_of(name: str, whole: memoryview) -> tuple[RowPart, int]:
    """Return the head of a part, and where what follows it begins."""
    start = len(MAGIC) + HEAD_LENGTH_BYTES
    if bytes(whole[: len(MAGIC)]) != MAGIC or len(whole) < start:
        raise PartRefusedError(f"{name} is no part of a prediction")
    (length,) = _LENGTH.unpack(whole[len(MAGIC) : start])
    if length > MAX_PART_HEAD_BYTES:
        raise PartRefusedError(f"{name} is no part of a prediction")
    try:
        return decode(RowPart, bytes(whole[start : start + length])), start + length
    except ProtocolError:
        raise PartRefusedError(f"{name} is no part of a prediction") from None
