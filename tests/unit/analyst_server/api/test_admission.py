from __future__ import annotations

from typing import Any

import pytest

from analyst_server.api.admission import BURST_S, MOST_REMEMBERED, Rates, identities

CERTIFICATE = "-----BEGIN CERTIFICATE-----"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_many_requests_may_come_at_once_and_then_so_many_a_second() -> None:
    clock = Clock()
    rates = Rates(2, clock)
    burst = int(2 * BURST_S)
    assert [rates.wait_s("b") for _ in range(burst)] == [0] * burst
    assert rates.wait_s("b") == pytest.approx(0.5)
    assert rates.wait_s("c") == 0
    clock.now = 1
    assert [rates.wait_s("b") == 0 for _ in range(3)] == [True, True, False]
    clock.now = 1000
    assert [rates.wait_s("b") for _ in range(burst)] == [0] * burst
    assert rates.wait_s("b") > 0


def test_whoever_is_refused_pays_nothing_for_asking() -> None:
    clock = Clock()
    rates = Rates(1, clock)
    for _ in range(100):
        rates.wait_s("b")
    clock.now = 1
    assert rates.wait_s("b") == 0


def test_a_slow_rate_admits_a_first_request() -> None:
    assert Rates(0.001, Clock()).wait_s("b") == 0


def test_no_number_of_identities_takes_all_memory() -> None:
    rates = Rates(1, Clock())
    for index in range(MOST_REMEMBERED + 10):
        rates.wait_s(str(index))
    assert repr(rates) == f"<Rates 1 a second, {MOST_REMEMBERED} identities>"


def scope(path: str = "/v1/x", chain: tuple[str, ...] = (), token: str | None = None) -> dict[str, Any]:
    headers = [] if token is None else [(b"authorization", token.encode())]
    return {
        "type": "http",
        "path": path,
        "headers": headers,
        "client": ("192.0.2.7", 1),
        "extensions": {"tls": {"client_cert_chain": chain}},
    }


def test_a_certificate_is_an_identity_wherever_it_comes_from() -> None:
    (one,) = identities(scope(chain=(CERTIFICATE,), token="Bearer x"))
    (other,) = identities({**scope(chain=(CERTIFICATE,)), "client": ("192.0.2.8", 1)})
    assert one == other
    assert one.startswith("certificate ")


def test_without_one_the_address_pays_and_the_token_too() -> None:
    assert identities(scope()) == ["address 192.0.2.7"]
    address, token = identities(scope(token="Bearer secret"))
    assert address == "address 192.0.2.7"
    assert token.startswith("token ")
    assert "secret" not in token


def test_questions_after_the_health_are_counted_apart() -> None:
    assert identities(scope("/healthz")) == ["health 192.0.2.7"]
