from __future__ import annotations

import pytest

from protocol import version
from protocol.errors import UnsupportedVersionError
from protocol.version import MEDIA_TYPE, WIRE_VERSIONS, negotiate


def test_the_newest_common_version_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert negotiate([1], peer="the analyst") == 1
    assert negotiate([3, 1, 2], peer="the analyst") == 1
    monkeypatch.setattr(version, "WIRE_VERSIONS", (1, 2))
    assert negotiate([1, 2, 3], peer="the analyst") == 2


def test_a_newer_peer_means_that_we_upgrade() -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        negotiate([3, 2], peer="the analyst")
    assert caught.value.hint == "upgrade this program: it is the older side"
    assert caught.value.detail == "we speak wire versions [1], the other side speaks [2, 3]"
    assert caught.value.context == {"ours": [1], "theirs": [2, 3]}


def test_an_older_peer_means_that_the_peer_upgrades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "WIRE_VERSIONS", (2, 3))
    with pytest.raises(UnsupportedVersionError) as caught:
        negotiate([1], peer="the analyst")
    assert caught.value.hint == "upgrade the analyst: it is the older side"


def test_a_peer_that_speaks_nothing_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError):
        negotiate([], peer="the analyst")


def test_the_media_type_names_the_newest_version() -> None:
    assert f"application/vnd.odc.v{max(WIRE_VERSIONS)}+msgpack" == MEDIA_TYPE
