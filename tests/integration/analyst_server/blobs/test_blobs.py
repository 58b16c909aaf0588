"""What every store of blobs promises, and what S3 does beside that, at a real server."""

from __future__ import annotations

import mmap
import os
import pickle
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from obstore.store import S3Store

from analyst_server.blobs import (
    STORE_ID_KEY,
    Blobs,
    DamagedBlobError,
    DirectoryBlobs,
    MemoryBlobs,
    S3Blobs,
    id_of,
    store_array,
)
from analyst_server.blobs.s3 import HELD_BACK_BYTES
from protocol.errors import InputError, StorageBusyError, StorageError
from runtime.files import hold
from tests.harness.s3 import BUCKET, S3, s3_server

KEY = "collaboration/uplinks/one"


@pytest.fixture(scope="module")
def s3() -> S3:
    return s3_server()


@pytest.fixture
def place(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with s3.prefix() as found:
        yield found


@pytest.fixture
def in_s3(place: str, tmp_path: Path) -> S3Blobs:
    (tmp_path / "scratch").mkdir()
    return S3Blobs(f"s3://{BUCKET}/{place}", tmp_path / "scratch")


class TestAnyStore:
    """What every store promises."""

    @pytest.fixture(params=["directory", "memory", "s3"])
    def blobs(self, request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
        if request.param == "s3":
            found: Blobs = request.getfixturevalue("in_s3")
            return found
        return DirectoryBlobs(tmp_path / "blobs") if request.param == "directory" else MemoryBlobs()

    def test_a_blob_written_at_once_is_whole(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        assert blobs.exists(KEY)
        assert bytes(blobs.read(KEY)) == b"content"

    def test_a_blob_written_at_once_leaves_no_partial_one(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        assert blobs.partial_size(KEY) is None

    def test_the_memory_of_an_array_is_written_as_it_is(self, blobs: Blobs) -> None:
        array = np.arange(6, dtype="<f4").reshape(2, 3)
        blobs.write(KEY, array.reshape(-1).view(np.uint8).data)
        np.testing.assert_array_equal(np.frombuffer(blobs.read(KEY), "<f4").reshape(2, 3), array)

    def test_a_blob_is_replaced_as_a_whole(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"a long content")
        blobs.write(KEY, b"short")
        assert bytes(blobs.read(KEY)) == b"short"

    def test_what_an_interrupted_write_left_does_not_get_into_the_next(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"left over, and longer")
        blobs.write(KEY, b"content")
        assert bytes(blobs.read(KEY)) == b"content"

    @pytest.mark.parametrize("offset", [0, 1, 4095, 4096, 5000, 69_999, 70_000, 80_000])
    @pytest.mark.parametrize("length", [None, 0, 1, 5000, 100_000])
    def test_a_range_is_that_of_a_slice(self, blobs: Blobs, offset: int, length: int | None) -> None:
        content = np.random.default_rng(0).bytes(70_000)
        expected = content[offset:] if length is None else content[offset : offset + length]
        blobs.append(KEY, 0, content)
        assert blobs.read_partial(KEY, offset, length) == expected
        blobs.commit(KEY)
        assert blobs.read(KEY, offset, length) == expected
        if length is not None:
            assert blobs.read_copy(KEY, offset, length) == expected

    def test_what_is_read_cannot_be_written_to(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        assert blobs.read(KEY, 2, 3).readonly

    @pytest.mark.parametrize("act", ["replace", "erase"])
    def test_what_was_read_stays_readable(self, blobs: Blobs, act: str) -> None:
        blobs.write(KEY, b"old" * 10_000)
        found = blobs.read(KEY)
        if act == "replace":
            blobs.write(KEY, b"new content")
        else:
            blobs.erase("collaboration")
        assert found == b"old" * 10_000

    def test_an_empty_blob_exists(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"")
        assert blobs.exists(KEY)
        assert bytes(blobs.read(KEY)) == b""

    @pytest.mark.parametrize("has_partial", [False, True])
    def test_a_blob_that_is_not_there_is_an_error(self, blobs: Blobs, has_partial: bool) -> None:
        if has_partial:
            blobs.append(KEY, 0, b"content")
        assert not blobs.exists(KEY)
        with pytest.raises(FileNotFoundError):
            blobs.read(KEY)

    def test_a_partial_blob_that_is_not_there_is_an_error(self, blobs: Blobs) -> None:
        for act in (blobs.read_partial, blobs.commit):
            with pytest.raises(FileNotFoundError):
                act(KEY)

    def test_a_blob_does_not_exist_before_its_commit(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"content")
        assert not blobs.exists(KEY)
        assert blobs.partial_size(KEY) == 7

    def test_pieces_are_appended_one_after_another(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"one")
        blobs.append(KEY, 3, b"two")
        assert blobs.read_partial(KEY) == b"onetwo"

    @pytest.mark.parametrize("offset", [0, 2, 5])
    def test_what_lies_behind_the_offset_is_cut_off(self, blobs: Blobs, offset: int) -> None:
        blobs.append(KEY, 0, b"abcdefgh")
        blobs.append(KEY, offset, b"X")
        assert blobs.read_partial(KEY) == b"abcdefgh"[:offset] + b"X"

    def test_a_partial_blob_that_is_too_short_is_not_filled_with_zeros(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"abc")
        with pytest.raises(OSError, match="is shorter than the 5 bytes"):
            blobs.append(KEY, 5, b"de")
        assert blobs.read_partial(KEY) == b"abc"

    def test_nothing_is_appended_to_a_partial_blob_that_is_gone(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"abc")
        blobs.discard(KEY)
        with pytest.raises(FileNotFoundError):
            blobs.append(KEY, 3, b"de")
        assert blobs.partial_size(KEY) is None

    def test_a_committed_blob_has_every_byte_that_was_appended(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"con")
        blobs.append(KEY, 3, b"tent")
        blobs.sync(KEY)
        blobs.commit(KEY)
        assert bytes(blobs.read(KEY)) == b"content"
        assert blobs.partial_size(KEY) is None

    def test_syncing_nothing_is_fine(self, blobs: Blobs) -> None:
        blobs.sync(KEY)
        assert blobs.partial_size(KEY) is None

    def test_a_discarded_partial_blob_is_gone(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"content")
        blobs.discard(KEY)
        assert blobs.partial_size(KEY) is None

    def test_discarding_nothing_is_fine(self, blobs: Blobs) -> None:
        blobs.discard(KEY)
        assert blobs.partial_size(KEY) is None

    def test_a_discarded_partial_blob_does_not_take_the_whole_one_with_it(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        blobs.append(KEY, 0, b"newer")
        blobs.discard(KEY)
        assert bytes(blobs.read(KEY)) == b"content"

    def test_a_folder_is_erased_with_what_is_half_there_and_no_other(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        blobs.append(KEY, 0, b"half")
        blobs.append("collaboration/results/two", 0, b"half")
        blobs.write("collaboration-2/uplinks/one", b"content")
        blobs.erase("collaboration")
        assert not blobs.exists(KEY)
        assert blobs.partial_size(KEY) is blobs.partial_size("collaboration/results/two") is None
        assert blobs.exists("collaboration-2/uplinks/one")
        blobs.erase("collaboration")  # again is fine

    def test_what_was_synced_is_what_comes_back(self, blobs: Blobs) -> None:
        content = np.random.default_rng(1).bytes(3 * HELD_BACK_BYTES // 2)
        for offset in range(0, len(content), 2**20):
            blobs.append(KEY, offset, content[offset : offset + 2**20])
        blobs.sync(KEY)
        blobs.append(KEY, len(content), b"more")
        assert blobs.partial_size(KEY) == len(content) + 4
        assert blobs.read_partial(KEY, len(content) - 2, 4) == content[-2:] + b"mo"
        blobs.append(KEY, HELD_BACK_BYTES + 5, b"cut")
        blobs.commit(KEY)
        assert bytes(blobs.read(KEY)) == content[: HELD_BACK_BYTES + 5] + b"cut"

    def test_the_keys_of_whole_blobs_are_listed(self, blobs: Blobs) -> None:
        for key in ("b/one", "a/two"):
            blobs.write(key, b"content")
        blobs.append("a/three", 0, b"content")
        blobs.sync("a/three")
        assert blobs.whole_keys() == ["a/two", "b/one"]
        assert blobs.stored_bytes() >= 21

    def test_the_partial_blobs_of_a_folder_are_found(self, blobs: Blobs) -> None:
        for key in ("a/b/one.digests", "a/b/two", "a/b/c/three", "a/b-2/four"):
            blobs.append(key, 0, b"content")
        blobs.sync("a/b/two")
        blobs.write("a/b/whole", b"content")
        assert blobs.partial_keys("a/b") == {"a/b/one.digests", "a/b/two"}
        assert blobs.partial_keys("nothing") == set()

    def test_a_partial_blob_gets_another_key_and_grows_there_alone(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"con")
        blobs.sync(KEY)
        blobs.hand_over(KEY, f"{KEY}.1")
        blobs.let_go(KEY)
        assert blobs.partial_size(KEY) is None
        with pytest.raises(FileNotFoundError):
            blobs.append(KEY, 3, b"lost")
        blobs.append(f"{KEY}.1", 3, b"tent")
        blobs.commit(f"{KEY}.1", KEY)
        assert bytes(blobs.read(KEY)) == b"content"
        assert blobs.partial_size(f"{KEY}.1") is None
        blobs.hand_over(f"{KEY}.1", f"{KEY}.2")  # nothing is fine
        assert blobs.partial_size(f"{KEY}.2") is None

    def test_what_was_handed_over_stays_whole_if_its_old_key_is_abandoned(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"content")
        blobs.sync(KEY)
        blobs.hand_over(KEY, f"{KEY}.1")
        blobs.append(KEY, 0, b"late")
        blobs.abandon(KEY)
        assert blobs.read_partial(f"{KEY}.1") == b"content"

    def test_what_is_left_beside_a_whole_blob_goes_but_for_one(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        for name in ("1", "1.digests", "mark"):
            blobs.append(f"{KEY}.{name}", 0, b"left")
            blobs.sync(f"{KEY}.{name}")
        blobs.append(f"{KEY}-2", 0, b"another")
        blobs.tidy(KEY, keep=f"{KEY}.mark")
        folder = KEY.rpartition("/")[0]
        assert blobs.partial_keys(folder) == {f"{KEY}.mark", f"{KEY}-2"}
        assert bytes(blobs.read(KEY)) == b"content"

    def test_an_array_is_read_with_its_digest(self, blobs: Blobs) -> None:
        array = np.random.default_rng(2).standard_normal((1000, 50))
        stored = store_array(blobs, KEY, array)
        np.testing.assert_array_equal(stored.open(blobs), array)
        blobs.write(KEY, array[::-1].tobytes())
        assert not stored.is_intact(blobs)
        with pytest.raises(DamagedBlobError):
            stored.open(blobs)
        blobs.erase("collaboration")
        with pytest.raises(DamagedBlobError):
            stored.open(blobs)

    def test_its_id_is_a_blob_that_no_round_erases(self, blobs: Blobs) -> None:
        assert id_of(blobs) is None
        blobs.write(STORE_ID_KEY, b"a" * 32)
        blobs.write(KEY, b"content")
        blobs.erase("collaboration")
        assert id_of(blobs) == "a" * 32
        assert blobs.whole_keys() == [STORE_ID_KEY], "so a copy of all blobs has it"
        assert blobs.place

    def test_a_store_that_works_can_be_asked(self, blobs: Blobs) -> None:
        blobs.ping()
        assert blobs.whole_keys() == []


def test_an_append_that_has_begun_is_waited_for_when_a_file_is_handed_over(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    blobs.append(KEY, 0, b"abc")
    descriptor = os.open(tmp_path / f"{KEY}.part", os.O_RDWR)
    hold(descriptor, tmp_path / f"{KEY}.part", 1)
    with ThreadPoolExecutor(1) as thread:
        handed_over = thread.submit(blobs.hand_over, KEY, f"{KEY}.1")
        with pytest.raises(TimeoutError):
            handed_over.result(0.2)
        os.pwrite(descriptor, b"def", 3)
        os.close(descriptor)
        handed_over.result(30)
    assert blobs.read_partial(f"{KEY}.1") == b"abcdef"


def test_an_append_that_does_not_end_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyst_server.blobs.stores.HAND_OVER_S", 0.01)
    blobs = DirectoryBlobs(tmp_path)
    blobs.append(KEY, 0, b"abc")
    descriptor = os.open(tmp_path / f"{KEY}.part", os.O_RDWR)
    hold(descriptor, tmp_path / f"{KEY}.part", 1)
    with pytest.raises(StorageBusyError):
        blobs.hand_over(KEY, f"{KEY}.1")
    os.close(descriptor)


class TestS3:
    """What S3 promises beside that."""

    @pytest.fixture
    def other(self, in_s3: S3Blobs) -> S3Blobs:
        """The same store, as another process sees it."""
        found: S3Blobs = pickle.loads(pickle.dumps(in_s3))  # noqa: S301  # our own
        return found

    def test_another_process_reads_what_was_synced_and_goes_on(self, in_s3: S3Blobs, other: S3Blobs) -> None:
        in_s3.append(KEY, 0, b"synced")
        in_s3.sync(KEY)
        in_s3.append(KEY, 6, b" and held back")
        assert other.read_partial(KEY) == b"synced"
        other.append(KEY, 6, b" elsewhere")
        other.commit(KEY)
        assert bytes(other.read(KEY)) == b"synced elsewhere"

    def test_what_was_held_back_is_lost_with_its_process_and_nothing_else(
        self, in_s3: S3Blobs, other: S3Blobs
    ) -> None:
        in_s3.append(KEY, 0, b"abc")
        assert other.partial_size(KEY) is None
        in_s3.sync(KEY)
        assert other.partial_size(KEY) == 3

    def test_a_commit_that_was_cut_off_is_made_again(
        self, in_s3: S3Blobs, other: S3Blobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_s3.append(KEY, 0, b"content")
        in_s3.sync(KEY)
        with monkeypatch.context() as patch:
            patch.setattr(S3Store, "delete", interrupted)
            with pytest.raises(KeyboardInterrupt):
                in_s3.commit(KEY)
        for each in (in_s3, other):
            assert bytes(each.read(KEY)) == b"content"
        other.commit(KEY)
        assert bytes(other.read(KEY)) == b"content"

    def test_discarding_what_a_cut_off_commit_left_keeps_the_whole_one(
        self, in_s3: S3Blobs, other: S3Blobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_s3.append(KEY, 0, b"content")
        in_s3.sync(KEY)
        with monkeypatch.context() as patch:
            patch.setattr(S3Store, "delete", interrupted)
            with pytest.raises(KeyboardInterrupt):
                in_s3.commit(KEY)
        other.discard(KEY)
        assert other.partial_size(KEY) is None
        assert bytes(other.read(KEY)) == b"content"

    def test_nothing_is_left_of_what_was_replaced_discarded_or_erased(
        self, in_s3: S3Blobs, s3: S3, place: str
    ) -> None:
        for content in (b"first", b"second", b"third"):
            in_s3.write(KEY, content)
        in_s3.append(KEY, 0, b"partial")
        in_s3.sync(KEY)
        in_s3.discard(KEY)
        assert len(s3.names(place)) == 2, "an index and a piece"
        in_s3.erase("collaboration")
        assert s3.names(place) == []

    def test_a_long_range_lies_in_a_file_without_a_name(
        self, in_s3: S3Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("analyst_server.blobs.s3.MAPPED_FROM_BYTES", 1000)
        content = np.random.default_rng(3).bytes(20_000)
        in_s3.write(KEY, content)
        found = in_s3.read(KEY, 5, 15_000)
        assert isinstance(found.obj, mmap.mmap)
        assert found == content[5:15_005]
        assert list(tmp_path.rglob("*")) == [tmp_path / "scratch"]

    def test_a_large_blob_is_sent_in_parts(self, in_s3: S3Blobs) -> None:
        content = np.random.default_rng(4).bytes(70 * 2**20)
        in_s3.write(KEY, content)
        assert in_s3.read(KEY) == content

    def test_no_secret_is_shown_or_pickled(self, in_s3: S3Blobs, s3: S3, place: str) -> None:
        in_s3.ping()
        assert repr(in_s3) == f"<S3Blobs in s3://{BUCKET}/{place}>"
        assert s3.secret_key.encode() not in pickle.dumps(in_s3)

    def test_wrong_credentials_are_no_missing_blob(
        self, in_s3: S3Blobs, s3: S3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
        with pytest.raises(StorageError, match="refuses its credentials") as caught:
            in_s3.exists(KEY)
        assert "wrong-secret" not in f"{caught.value} {caught.value.__cause__}"
        assert s3.endpoint not in str(caught.value)

    def test_without_tls_no_authority_is_needed(
        self, in_s3: S3Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):  # as in our image, which has none
                patch.setenv(variable, str(tmp_path / "nothing"))
            in_s3.write(KEY, b"content")
            assert bytes(in_s3.read(KEY)) == b"content"

    def test_a_server_that_is_away_is_waited_for_by_the_client(
        self, in_s3: S3Blobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setattr("analyst_server.blobs.s3.RETRIES", {"max_retries": 1})
        for act in (in_s3.exists, in_s3.read, lambda key: in_s3.write(key, b"content"), in_s3.erase):
            with pytest.raises(StorageBusyError, match="does not answer") as caught:
                act(KEY)
            assert caught.value.context["retry_after_s"] > 0


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_without_credentials_the_variables_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        S3Blobs("s3://bucket", tmp_path).ping()


@pytest.mark.parametrize("url", ["s3:/bucket", "https://bucket/prefix", "s3://key:hunter2@bucket", "s3://"])
def test_an_address_that_cannot_be_used_is_not_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError) as caught:
        S3Blobs(url, tmp_path)
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
