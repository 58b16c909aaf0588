from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from analyst_server import app as app_module
from analyst_server.app import create_app
from analyst_server.installation import open_analyst, unix_now
from analyst_server.services.worker import Worker
from analyst_server.settings import Settings
from protocol.errors import CertificateRequiredError
from tests.harness.certificates import NOW, shared_member, shared_root
from tests.harness.world import World


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of an analyst that was installed."""
    found = Settings(data_dir=tmp_path / "data", poll_s=0.001)
    directory = found.identity_dir
    directory.mkdir(parents=True)
    me = shared_member("analyst", "analyst")
    (directory / "key.pem").write_bytes(
        me.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (directory / "certificate.pem").write_bytes(me.pem)
    (directory / "root.pem").write_bytes(shared_root().pem)
    return found


def test_an_installed_analyst_opens(settings: Settings) -> None:
    analyst = open_analyst(settings, lambda: NOW)
    assert analyst.root.identify(analyst.certificate, at=NOW).role == "analyst"
    assert analyst.max_uplink_bytes == settings.max_uplink_bytes
    analyst.records.dispose()


def test_an_analyst_that_was_not_installed_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(CertificateRequiredError) as caught:
        open_analyst(Settings(data_dir=tmp_path))
    assert "odc-analyst join" in caught.value.hint


def test_a_key_of_another_kind_is_refused(settings: Settings) -> None:
    other = rsa.generate_private_key(65537, 2048)
    (settings.identity_dir / "key.pem").write_bytes(
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    with pytest.raises(CertificateRequiredError, match="not an ECDSA key"):
        open_analyst(settings)


def test_the_key_is_not_shown(settings: Settings) -> None:
    analyst = open_analyst(settings)
    assert "EllipticCurvePrivateKey" not in repr(analyst)
    analyst.records.dispose()


def test_the_worker_runs_as_long_as_the_application(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Quiet:
        def __init__(self, *_: object, **__: object) -> None:
            events.append("made")

        def start(self) -> None:
            events.append("started")

        def ask_to_stop(self) -> None:
            events.append("asked to stop")

        def join(self) -> None:
            events.append("joined")

        def stop(self) -> None:
            events.append("stopped")

    monkeypatch.setattr(app_module, "Worker", Quiet)
    app = create_app(world.analyst, Settings(data_dir=world.directory))

    async def live() -> None:
        async with app.router.lifespan_context(app):
            events.append("serving")

    asyncio.run(live())
    assert events == ["made", "started", "serving", "asked to stop", "joined", "stopped"]


def test_as_many_workers_run_as_rounds_may_be_computed_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Worker] = []

    def worker(*arguments: Any, **options: Any) -> Worker:
        made.append(Worker(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(app_module, "Worker", worker)
    app = create_app(world.analyst, Settings(data_dir=world.directory, compute_processes=3))

    async def live() -> None:
        async with app.router.lifespan_context(app):
            assert len(list((world.directory / "workers").iterdir())) == 3

    asyncio.run(live())
    assert len({one.owner for one in made}) == 3
    assert list((world.directory / "workers").iterdir()) == []


def test_the_clock_is_in_whole_seconds() -> None:
    assert isinstance(unix_now(), int)
