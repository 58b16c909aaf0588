"""How an event is signed, and which addresses and secrets are taken."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from analyst_server.notices.webhook import checked_address, secrets_in, signature, webhook_of
from analyst_server.settings import Settings
from protocol.errors import InputError
from tests.harness.receiver import SECRET
from tests.harness.tree import REPOSITORY

# the example that the libraries of the Standard Webhooks specification, version 1.0.0, are tested with
EVENT_ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
EXPECTED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
LONG = "whsec_" + base64.b64encode(bytes(64)).decode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return path


def test_the_signature_is_that_of_the_specification(file: Path) -> None:
    (secret,) = secrets_in(file)
    assert signature(secret, EVENT_ID, AT, BODY) == EXPECTED


@pytest.mark.parametrize(
    ("event_id", "at", "body"), [("x", AT, BODY), (EVENT_ID, 1, BODY), (EVENT_ID, AT, b"")]
)
def test_the_signature_is_of_everything(file: Path, event_id: str, at: int, body: bytes) -> None:
    assert signature(secrets_in(file)[0], event_id, at, body) != EXPECTED


def example_of_the_manual() -> str:
    text = (REPOSITORY / "docs" / "operations.md").read_text()
    found = re.search(r"```python\n(.*?)```", text.partition("\n## Webhook")[2], re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("changed", "is_ours"),
    [
        ({}, True),
        ({"webhook-signature": "v1,AAAA " + EXPECTED}, True),
        ({"webhook-signature": "v1,AAAA"}, False),
        ({"webhook-id": "msg_another"}, False),
        ({"webhook-timestamp": str(AT - 600)}, False),
    ],
)
def test_the_example_of_the_manual_tells_our_events_from_others(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], is_ours: bool
) -> None:
    monkeypatch.setattr("time.time", lambda: AT + 10.0)
    names: dict[str, object] = {}
    exec(example_of_the_manual(), names)  # noqa: S102  # what people copy
    verify = names["verify"]
    assert callable(verify)
    headers = {"webhook-id": EVENT_ID, "webhook-timestamp": str(AT), "webhook-signature": EXPECTED, **changed}
    assert verify(SECRET, headers, BODY) is is_ours


def test_a_file_may_have_the_next_secret_as_well(file: Path) -> None:
    file.write_text(f"{SECRET}\n{LONG}\n")
    assert [len(secret) for secret in secrets_in(file)] == [24, 64]


@pytest.mark.parametrize(
    "content",
    ["", SECRET[6:], "whsec_c2hvcnQ=", "whsec_!!!", LONG[:-4] + "AAAAAAAA", "\n".join([SECRET] * 5)],
)
def test_another_secret_is_refused_without_being_shown(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        secrets_in(file)
    assert not content or content.split()[0] not in caught.value.detail


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/a?b=c",
        "https://[2001:db8::1]:8443/",
        "http://127.0.0.1:9/x",
        "http://localhost/",
        "http://[::1]:80/",
    ],
)
def test_an_address_is_https_or_on_this_machine(url: str) -> None:
    assert checked_address(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/a",
        "http://127.0.0.1.example/a",
        "http://10.0.0.1/a",
        "file:///etc/passwd",
        "https:///a",
        "https://host:99999/a",
        "https://user:secret@hooks.example/a",
        "https://hooks.example/a#b",
        "https://hooks.example/a b",
        "https://hooks.example/a\r\nX: y",
        "https://höoks.example/",
        "hooks.example",
    ],
)
def test_another_address_is_refused_without_being_shown(file: Path, url: str) -> None:
    with pytest.raises(InputError) as caught:
        webhook_of(Settings(webhook_url=url, webhook_secret_file=file))
    assert url not in caught.value.detail


def test_neither_address_nor_secret_is_shown(file: Path) -> None:
    settings = Settings(webhook_url="https://hooks.example/T0/very-secret", webhook_secret_file=file)
    found = webhook_of(settings)
    assert found is not None
    assert found.host == "hooks.example"
    for text in (repr(found), repr(settings)):
        assert "very-secret" not in text
        assert repr(secrets_in(file)[0]) not in text


def test_there_is_none_unless_it_is_set(file: Path) -> None:
    assert webhook_of(Settings(webhook_secret_file=file)) is None
    with pytest.raises(InputError, match="needs a secret"):
        webhook_of(Settings(webhook_url="https://hooks.example/"))
