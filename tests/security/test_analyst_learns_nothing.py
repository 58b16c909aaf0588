"""After a whole round, nothing that must stay at an institution is to be found at the analyst.

Looked for in its files and logs, and in the memory of its server and of its compute process while
they still run. The same search finds what is known to be there, so that it can fail.
"""

from __future__ import annotations

import sys

import numpy as np
import psutil
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.harness.attacks import got
from tests.harness.needles import Needles, blocks_of_files, blocks_of_memory
from tests.harness.played import FEATURES, LATENT_DIM, ROWS, Played, scalar, spellings

HOLD_STILL = "this system does not let one process read the memory of another"


def test_the_search_looks_for_every_kind_of_secret(must_stay: Needles) -> None:
    kinds = (
        "A row",
        "F of",
        "X of",
        "table of",
        "text of",
        "seed",
        "stream",
        "identity",
        "join secret",
        "root key",
    )
    assert all(any(kind in name for name in must_stay.patterns) for kind in kinds)
    assert len(must_stay.patterns) > 400
    for name, pattern in must_stay.patterns.items():
        assert must_stay.found_in(b"\x00odd" + pattern + b"\xff") >= {name}


def test_nothing_that_must_stay_lies_in_the_analysts_files(played: Played, must_stay: Needles) -> None:
    files = blocks_of_files(played.consortium.analyst.data_dir, must_stay.overlap)
    assert must_stay.found_in_all(files) == set()


def test_the_search_finds_what_does_lie_in_the_analysts_files(played: Played) -> None:
    session = played.sessions["hospital-b"]
    payload = session.home.collaboration(played.collaboration_id) / "uplink.payload"
    rep = np.frombuffer(payload.read_bytes(), "<f4", count=ROWS * LATENT_DIM).reshape(ROWS, LATENT_DIM)
    known = {f"X~ row {i}": row.tobytes() for i, row in enumerate(rep)}
    known["the terms"] = played.collaboration_id.encode()  # in SQLite
    known["the log"] = f"/v1/collaborations/{played.collaboration_id}/anchors".encode()
    needles = Needles(known)
    files = blocks_of_files(played.consortium.analyst.data_dir, needles.overlap)
    assert needles.found_in_all(files) == set(known)


def processes(played: Played) -> dict[str, int]:
    """The server, and its compute process."""
    server = psutil.Process(played.consortium.analyst.server.pid)  # type: ignore[union-attr]  # it runs
    (computes,) = [child for child in server.children() if "spawn_main" in " ".join(child.cmdline())]
    return {"server": server.pid, "compute": computes.pid}


def search_memory(pid: int, needles: Needles) -> set[str]:
    try:
        return needles.found_in_all(blocks_of_memory(pid, needles.overlap))
    except (PermissionError, FileNotFoundError):
        pytest.skip(HOLD_STILL)


@pytest.mark.skipif(sys.platform != "linux", reason=HOLD_STILL)
@pytest.mark.parametrize("which", ["server", "compute"])
def test_nothing_that_must_stay_is_in_the_analysts_memory(
    played: Played, must_stay: Needles, which: str
) -> None:
    assert search_memory(processes(played)[which], must_stay) == set()


@pytest.mark.skipif(sys.platform != "linux", reason=HOLD_STILL)
def test_the_search_finds_what_is_in_the_servers_memory(played: Played) -> None:
    identity = played.consortium.analyst.data_dir / "identity"
    with played.consortium.operator() as opened:
        known = {
            "the analyst's certificate": opened.certificate.public_bytes(Encoding.DER),
            "the analyst's key": scalar(opened.key)[::-1],
            "the directory of its data": str(identity.parent).encode(),
        }
    found = search_memory(processes(played)["server"], Needles(known))
    assert found >= {"the analyst's certificate", "the directory of its data"}
    assert found == set(known)


@pytest.mark.skipif(sys.platform != "linux", reason=HOLD_STILL)
def test_the_search_finds_what_is_in_the_compute_process(played: Played) -> None:
    known = {"its directory": str(played.consortium.analyst.data_dir).encode()}
    assert search_memory(processes(played)["compute"], Needles(known)) == set(known)


def test_the_seed_lies_in_the_analysts_files_if_nobody_seals_it(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutation: a lead that sends the seed as it is."""
    made = played.consortium
    found = made.publish(features=FEATURES, latent_dim=LATENT_DIM, anchor={"kind": "haar", "rows": FEATURES})
    for session in made.sessions.values():
        session.round(found).accept()
    seeds: list[bytes] = []

    def unsealed(seed: bytes, *_to: object) -> bytes:
        seeds.append(seed)
        return seed

    monkeypatch.setattr("user_client.sdk.anchor.seal", unsealed)
    made.lead.round(found).create_anchor()
    needles = Needles(spellings({"anchor seed": seeds[0]}))
    files = blocks_of_files(made.analyst.data_dir, needles.overlap)
    assert "anchor seed" in needles.found_in_all(files)
    got("analyst, anchor not sealed", seeds=1)
