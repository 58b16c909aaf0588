"""Lines that break in the middle: what arrived is kept, and the next try ends well."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from odc_demo.actors import CommandError
from protocol.operations import FETCH_DOWNLINK
from runtime.terminal import exit_code
from tests.harness.consortium import Consortium, consortium, rows
from tests.harness.line import Direction, line
from user_client.custody.round_directory import CHANGE_FILE, DOWNLINK_FILE, MODEL_FILE
from user_client.errors import ConnectionFailedError
from user_client.transport import AnalystConnection, Download, Traffic

MIB = 2**20
POOR_BYTES_PER_S = 400_000
LARGE = {"features": 20, "latent_dim": 20, "anchor": {"kind": "haar", "rows": 20}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("lines"), "lead-hospital", "hospital-b") as found:
        yield found


@pytest.fixture
def far(made: Consortium) -> Iterator[None]:
    """Whatever a test does to the line of hospital-b, it has a straight one afterwards."""
    yield
    made.go_through("hospital-b", made.analyst.port)


@pytest.fixture(scope="module")
def large() -> pa.Table:
    """A table whose uplink is 80 bytes a row: seven chunks of a mebibyte."""
    return rows(3, 85_000, features=20)


def offset_in(record: logging.LogRecord) -> int:
    assert isinstance(record.args, tuple)
    return int(str(record.args[1]))


def test_an_upload_cut_twice_goes_on_where_it_stopped(
    made: Consortium, far: None, large: pa.Table, caplog: pytest.LogCaptureFixture
) -> None:
    found, b = made.anchored(**LARGE), made.sessions["hospital-b"]
    with line(made.analyst.port, cuts=(("up", 2 * MIB + 5000), ("up", 3 * MIB))) as broken:
        made.go_through("hospital-b", broken.port)
        with caplog.at_level(logging.INFO, logger="user_client.transport.upload"):
            receipt = made.contribute("hospital-b", found, large)
        assert broken.cuts_left == 0
    made.go_through("hospital-b", made.analyst.port)
    resumed_at = [offset_in(record) for record in caplog.records if "have arrived" in record.msg]
    assert len(resumed_at) >= 2
    assert max(resumed_at) >= MIB  # the first time it may ask before the analyst has noticed the cut
    assert resumed_at == sorted(set(resumed_at))  # nothing that arrived was sent again
    made.contribute("lead-hospital", found, rows(0, 40, features=20))
    made.wait_for(found, "released")
    assert b.round(found).receive().uplink_digest == receipt.uplink_digest


def test_a_poor_line_brings_an_upload_with_few_bytes_more(
    made: Consortium, far: None, large: pa.Table
) -> None:
    """It breaks every 200 kB, long before a chunk is through."""
    found = made.anchored(**LARGE, rep_dtype="f4")
    cuts: tuple[tuple[Direction, int], ...] = (("up", 200_000),) * 100
    with line(made.analyst.port, cuts, up_bytes_per_s=POOR_BYTES_PER_S) as poor:
        made.go_through("hospital-b", poor.port)
        receipt = made.contribute("hospital-b", found, large.slice(0, 30_000))
        assert receipt.payload_bytes > 2_400_000
        assert poor.cuts_left < 100 - 10
        assert poor.carried_up < 1.5 * receipt.payload_bytes


def test_an_answer_that_is_lost_is_asked_for_again(made: Consortium, far: None) -> None:
    """The line breaks after the last byte went up and before the receipt came down."""
    found, b = made.anchored(), made.sessions["hospital-b"]
    b.round(found).prepare(rows(1, 40))
    with line(made.analyst.port, cuts=(("down", 2300),)) as broken:
        made.go_through("hospital-b", broken.port)
        receipt = b.round(found).contribute()
        assert broken.cuts_left == 0
    made.go_through("hospital-b", made.analyst.port)
    made.contribute("lead-hospital", found, rows(0, 40))
    made.receive_all(found)
    assert receipt.party == "hospital-b"


@pytest.fixture(scope="module")
def released(made: Consortium) -> str:
    """A round whose downlinks have some 400 kB."""
    found = made.anchored(model={"kind": "mlp", "hidden_units": 20_000, "epochs": 2})
    made.contribute_all(found)
    made.wait_for(found, "released")
    return found


def test_a_downlink_whose_line_dies_leaves_nothing_and_is_not_fetched(
    made: Consortium, far: None, released: str
) -> None:
    b = made.sessions["hospital-b"].round(released)
    made.lead.round(released).receive()
    directory = made.sessions["hospital-b"].home.collaboration(released)
    never_again: tuple[tuple[Direction, int], ...] = (("down", 1),) * 6
    with line(made.analyst.port, cuts=(("down", 60_000), *never_again)) as broken:
        made.go_through("hospital-b", broken.port)
        with pytest.raises(ConnectionFailedError) as caught:
            b.receive()
        assert (exit_code(caught.value), caught.value.hint) == (7, ConnectionFailedError.hint)
    left = {path.name for path in directory.iterdir()}
    assert not left & {DOWNLINK_FILE, CHANGE_FILE, MODEL_FILE}
    with pytest.raises(CommandError, match="no downlink was fetched yet by hospital-b,"):
        made.analyst.run("collaboration", "close", released)


@pytest.mark.parametrize("every_bytes", [50_000, 100_000])
def test_a_downlink_cut_again_and_again_goes_on_where_it_stopped(
    made: Consortium, far: None, released: str, every_bytes: int
) -> None:
    session = made.sessions["hospital-b"]
    cuts: tuple[tuple[Direction, int], ...] = (("down", every_bytes),) * (300_000 // every_bytes)
    with line(made.analyst.port, cuts=cuts) as broken:
        made.go_through("hospital-b", broken.port)
        download = Download(session.connection, FETCH_DOWNLINK, collaboration_id=released)
        whole = b"".join(download)
        assert broken.cuts_left == 0
    made.go_through("hospital-b", made.analyst.port)
    assert whole == b"".join(Download(session.connection, FETCH_DOWNLINK, collaboration_id=released))
    assert len(whole) > 300_000


def test_a_round_that_everybody_has_fetched_is_closed_without_a_question(
    made: Consortium, released: str
) -> None:
    for session in made.sessions.values():
        session.round(released).receive()
        assert len(session.round(released).predict(rows(4, 7)).labels) == 7
    made.analyst.run("collaboration", "close", released)
    assert made.state(released) == "closed"


def test_a_server_that_is_not_there_ends_with_7_and_the_hint(made: Consortium) -> None:
    root = made.lead.home.root_path.read_text()
    pauses: list[float] = []
    with (
        AnalystConnection(
            "https://localhost:9",
            root,
            None,
            Traffic(),
            pause=pauses.append,  # nobody listens there
        ) as nowhere,
        pytest.raises(ConnectionFailedError) as caught,
    ):
        nowhere.discover()
    assert exit_code(caught.value) == 7
    assert "the analyst is not running" in caught.value.hint
    assert pauses == sorted(pauses)
    assert len(pauses) >= 4
