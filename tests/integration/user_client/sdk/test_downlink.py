"""What comes back: received whole and checked, then used to predict."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from analyst_server.services import downlinks, rounds
from analyst_server.store import Unit
from protocol.alignment_terms import LEAST_SQUARES_METHODS, AlignmentMethod
from protocol.envelope import decode_stored
from protocol.errors import (
    LedgerError,
    LimitExceededError,
    MalformedMessageError,
    NotPermittedError,
    OutOfOrderError,
    ProtocolError,
    RoundFailedError,
    TruncatedError,
    TrustError,
)
from protocol.messages import DownlinkManifest
from tests.harness.in_process import HOSPITAL, SVM, Consortium, downlink_bytes, replay, rows
from user_client.custody.protection import protect
from user_client.custody.round_directory import BASIS_FILE, MODEL_FILE, MODEL_WITH_ROWS_FILE
from user_client.custody.vault import is_sealed
from user_client.errors import ConnectionFailedError, NotPreparedError
from user_client.transport import Download

Matrix = NDArray[Any]


def test_an_svm_everybody_consented_to_comes_back_and_predicts(consortium: Consortium) -> None:
    consortium.until_joined().publish(model=SVM)
    for session in consortium.sessions:
        session.round(consortium.id).accept(accept_row_revealing_model=True)
    consortium.lead_round.create_anchor()
    for seed, session in enumerate(consortium.sessions):
        session.round(consortium.id).prepare(consortium.table(seed))
        session.round(consortium.id).contribute()
    consortium.compute()
    for session in consortium.sessions:
        assert session.round(consortium.id).receive().model_parameters > 0
        found = session.round(consortium.id).predict(consortium.table(9))
        right = np.array(found.labels) == np.array(rows(9)["y"])
        assert right.mean() > 0.85


def test_a_model_with_rows_of_an_earlier_version_is_hidden_by_a_passphrase(consortium: Consortium) -> None:
    consortium.until_released(model=SVM)
    hospital = consortium.hospital_round
    hospital.receive()
    before = hospital.predict(consortium.table(9)).probabilities
    folder = consortium.directory_of(consortium.hospital)
    (folder / MODEL_WITH_ROWS_FILE).rename(folder / MODEL_FILE)  # as versions before stored it
    (folder / "same").hardlink_to(folder / MODEL_FILE)
    protect(consortium.hospital.home, "a passphrase of several words")
    assert not (folder / MODEL_FILE).exists()
    assert set((folder / "same").read_bytes()) == {0}
    assert is_sealed((folder / MODEL_WITH_ROWS_FILE).read_bytes())
    np.testing.assert_array_equal(hospital.predict(consortium.table(9)).probabilities, before)


@pytest.mark.parametrize("method", get_args(AlignmentMethod))
def test_all_members_predict_the_same(method: str, consortium: Consortium) -> None:
    """With a full basis all spans are one, so F_i G_i is the same for every party, orthogonal or not."""
    target = "invertible" if method in LEAST_SQUARES_METHODS else "haar"
    consortium.until_released(alignment={"method": method, "target": target})
    found = []
    for session in consortium.sessions:
        session.round(consortium.id).receive()
        found.append(session.round(consortium.id).predict(pa.table(rows(9))))
    assert found[0].labels == found[1].labels
    np.testing.assert_allclose(found[0].probabilities, found[1].probabilities, atol=1e-5)  # float32


def with_change(consortium: Consortium, make: Callable[[Matrix], Matrix]) -> None:
    """Let the analyst send the hospital another G_i, and enter that into the ledger."""
    analyst = consortium.analyst
    with analyst.records.begin(write=True) as unit:
        row = unit.downlink(consortium.id, HOSPITAL)
        assert row is not None
        manifest = decode_stored(DownlinkManifest, row.manifest)
        spec = manifest.change_of_basis
        key = downlinks.result_key(consortium.id, spec)
        honest = np.frombuffer(analyst.blobs.read(key), f"<{spec.dtype}").reshape(spec.shape)
        change = downlinks.put(analyst, consortium.id, spec.name, make(honest), spec.dtype)
        row.manifest = analyst.sign(manifest.model_copy(update={"arrays": (change, manifest.model)}))


@pytest.mark.parametrize(
    ("method", "make", "says"),
    [
        ("isotropic", lambda honest: 2 * honest, "change_of_basis: is not orthogonal"),
        ("gopp", lambda honest: honest + 0.1, "change_of_basis: is not orthogonal"),
        ("imakura", lambda honest: honest * np.inf, "change_of_basis: row 0 is not finite"),
    ],
)
def test_a_change_of_basis_that_its_method_does_not_make_is_refused(
    method: str, make: Callable[[Matrix], Matrix], says: str, consortium: Consortium
) -> None:
    consortium.until_released(alignment={"method": method})
    with_change(consortium, make)
    with pytest.raises(ProtocolError, match=says) as caught:
        consortium.hospital_round.receive()
    assert "this downlink cannot be used" in caught.value.hint
    assert not consortium.hospital_round.directory.holds(DownlinkManifest)


def test_predicting_needs_no_label(consortium: Consortium) -> None:
    consortium.until_released()
    consortium.hospital_round.receive()
    features = {name: values for name, values in rows(9).items() if name != "y"}
    found = consortium.hospital_round.predict(pa.table(features))
    assert found.classes == ("no", "yes")
    assert found.probabilities.shape == (40, 2)


def test_receiving_again_asks_nobody(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium.until_released()
    first = consortium.hospital_round.receive()
    monkeypatch.setattr(consortium.hospital.connection, "stream", None)
    assert consortium.hospital_round.receive() == first


def has_arrived(consortium: Consortium) -> bool:
    return HOSPITAL not in downlinks.yet_to_fetch(consortium.analyst, consortium.id)


def test_an_arrival_that_is_acknowledged_is_known_to_the_analyst(consortium: Consortium) -> None:
    consortium.until_released()
    consortium.hospital_round.receive()
    assert has_arrived(consortium)


def test_a_downlink_is_kept_although_the_analyst_cannot_be_told(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Download) -> None:
        raise ConnectionFailedError("no answer from the analyst")

    consortium.until_released()
    with monkeypatch.context() as patched:
        patched.setattr(Download, "acknowledge", fail)
        consortium.hospital_round.receive()
    assert not has_arrived(consortium)
    assert "was not told that the downlink has arrived" in caplog.text
    assert consortium.hospital_round.predict(pa.table(rows(9))).classes == ("no", "yes")
    consortium.hospital_round.receive()
    assert has_arrived(consortium)


def test_a_receive_that_was_cut_off_before_it_could_tell_the_analyst_does_so_when_it_is_run_again(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(_: Download) -> None:
        raise KeyboardInterrupt

    consortium.until_released()
    with monkeypatch.context() as patched:
        patched.setattr(Download, "acknowledge", cut_off)
        with pytest.raises(KeyboardInterrupt):
            consortium.hospital_round.receive()
    assert not has_arrived(consortium)
    consortium.hospital_round.receive()
    assert has_arrived(consortium)
    monkeypatch.setattr(consortium.hospital.connection, "request", None)
    consortium.hospital_round.receive()  # the analyst knows: nobody is asked


def test_there_is_nothing_to_receive_before_the_release(consortium: Consortium) -> None:
    consortium.until_contributed()
    with pytest.raises(OutOfOrderError):
        consortium.hospital_round.receive()


def test_a_failed_round_is_told_with_its_reason(consortium: Consortium) -> None:
    consortium.until_contributed()
    rounds.claim(consortium.analyst, "worker", 10)
    rounds.fail(consortium.analyst, consortium.id, "worker", "no rows of class 1")
    with pytest.raises(RoundFailedError, match="no rows of class 1"):
        consortium.hospital_round.receive()


def test_waiting_for_the_release_ends_with_the_downlink(consortium: Consortium) -> None:
    consortium.until_contributed()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            consortium.compute()

    assert consortium.hospital_round.receive(wait_s=1000, pause=pause).party == HOSPITAL
    assert len(pauses) == 3


def test_the_pauses_grow_so_that_an_hour_costs_few_questions(consortium: Consortium) -> None:
    consortium.until_contributed()
    pauses: list[float] = []
    with pytest.raises(OutOfOrderError):
        consortium.hospital_round.receive(wait_s=3600, pause=pauses.append)
    assert sum(pauses) == pytest.approx(3600)
    assert len(pauses) <= 25
    assert pauses[:-1] == sorted(pauses[:-1])


def test_a_round_that_fails_while_we_wait_says_so_at_once(consortium: Consortium) -> None:
    consortium.until_contributed()
    rounds.claim(consortium.analyst, "worker", 10)
    rounds.fail(consortium.analyst, consortium.id, "worker", "no rows of class 1")
    pauses: list[float] = []
    with pytest.raises(RoundFailedError):
        consortium.hospital_round.receive(wait_s=3600, pause=pauses.append)
    assert pauses == []


def test_the_downlink_of_another_party_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released()
    plain = consortium.hospital.connection
    monkeypatch.setattr(plain, "stream", consortium.lead.connection.stream)
    with pytest.raises(NotPermittedError, match="another uplink than ours"):
        consortium.hospital_round.receive()


@pytest.mark.parametrize("share", [0, 0.1, 0.3, 0.6, 0.8, 0.999])
def test_a_changed_byte_of_the_downlink_is_seen(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    consortium.until_released()
    damaged = bytearray(downlink_bytes(consortium))
    damaged[int(share * len(damaged))] ^= 1
    replay(monkeypatch, consortium, bytes(damaged))
    with pytest.raises((ProtocolError, TrustError)):
        consortium.hospital_round.receive()
    assert not (consortium.directory_of(consortium.hospital) / "downlink.odc").exists()


@pytest.mark.parametrize("length", [0, 3, 100, -1, -40])
def test_a_downlink_that_is_cut_is_seen(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    consortium.until_released()
    replay(monkeypatch, consortium, downlink_bytes(consortium)[:length])
    with pytest.raises(TruncatedError):
        consortium.hospital_round.receive()


def test_a_manifest_that_is_cut_says_how_much_was_expected(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released()
    whole = downlink_bytes(consortium)
    (length,) = struct.unpack_from("<I", whole)
    replay(monkeypatch, consortium, whole[:100])
    with pytest.raises(TruncatedError, match=f"expected {4 + length} bytes, got 100"):
        consortium.hospital_round.receive()


def test_a_downlink_with_a_huge_manifest_is_refused_before_it_is_read(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released()
    replay(monkeypatch, consortium, b"\xff\xff\xff\xff")
    with pytest.raises(LimitExceededError):
        consortium.hospital_round.receive()


def test_a_downlink_in_single_bytes_is_read(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium.until_released()
    replay(monkeypatch, consortium, downlink_bytes(consortium), size=1)
    assert consortium.hospital_round.receive().party == HOSPITAL


GROUPS = {"terms_schema": 2, "model_groups": {"largest_distance": 0.1}}


def resigned(consortium: Consortium, **changed: Any) -> bytes:
    """Return the hospital's downlink with another manifest, signed by the analyst."""
    data = downlink_bytes(consortium)
    (length,) = struct.unpack_from("<I", data)
    manifest = decode_stored(DownlinkManifest, data[4 : 4 + length]).model_copy(update=changed)
    signed = consortium.analyst.sign(manifest)
    return struct.pack("<I", len(signed)) + signed + data[4 + length :]


def digest_of_one(unit: Unit, collaboration_id: str) -> bytes:
    row = unit.downlinks(collaboration_id)[0]
    return decode_stored(DownlinkManifest, row.manifest).model.digest


def test_the_ledger_is_of_all_models_where_groups_have_their_own(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_contributed(**GROUPS)
    # what an analyst would enter that gives one member a model that no other knows of
    monkeypatch.setattr(downlinks, "released", digest_of_one)
    consortium.compute()
    with pytest.raises(LedgerError, match="'release' is not of the model we were sent"):
        consortium.hospital_round.receive()


@pytest.mark.parametrize(
    ("terms", "models"), [(GROUPS, 0), ({}, 1), (GROUPS, 2)], ids=["none", "without groups", "too many"]
)
def test_models_that_the_terms_do_not_allow_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, terms: dict[str, Any], models: int
) -> None:
    consortium.until_released(**terms)
    own = consortium.lead_round.receive().model.digest
    named = tuple(sorted([own, bytes(32)][:models]))
    replay(monkeypatch, consortium, resigned(consortium, models=named))
    with pytest.raises((MalformedMessageError, LimitExceededError), match="models"):
        consortium.hospital_round.receive()


def test_where_no_group_has_its_own_the_one_model_is_named(consortium: Consortium) -> None:
    consortium.until_released(**GROUPS)
    found = [session.round(consortium.id).receive() for session in consortium.sessions]
    assert {one.models for one in found} == {(found[0].model.digest,)}
    results = consortium.lead_round.report()["results"]
    assert results is not None
    assert results["groups"] == []


def test_predicting_needs_the_downlink(consortium: Consortium) -> None:
    consortium.until_contributed()
    with pytest.raises(NotPreparedError, match="odc receive"):
        consortium.hospital_round.predict(pa.table(rows(9)))


def test_predicting_needs_the_secret_basis(consortium: Consortium) -> None:
    consortium.until_released()
    consortium.hospital_round.receive()
    (consortium.directory_of(consortium.hospital) / BASIS_FILE).unlink()
    with pytest.raises(NotPreparedError, match="secret basis"):
        consortium.hospital_round.predict(pa.table(rows(9)))
