"""HAProxy opens TLS before two analysts, and says whose certificate it has seen."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import httpx
import pytest

from odc_demo.actors import free_port
from tests.harness.postgresql import analysts_postgresql
from tests.harness.real_balancer import real_balancer
from tests.harness.several import Several, several_analysts


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Several, int]]:
    """Two analysts that answer the balancer alone, and the port of the balancer."""
    directory, port = tmp_path_factory.mktemp("behind"), free_port()
    shared = {"ODC_ANALYST_BLOB_URL": f"file://{directory / 'shared'}"}
    with (
        analysts_postgresql() as postgres,
        postgres.database() as name,
        several_analysts(directory, postgres.records_url(name), shared) as made,
    ):
        for one in made.analysts:
            one.stop()
            one.settings = {**one.settings, "ODC_ANALYST_BEHIND_BALANCER": "true"}
            one.start()
        identity = made.analysts[0].data_dir / "identity"
        both = (identity / "certificate.pem").read_text() + (identity / "key.pem").read_text()
        (directory / "odc.pem").write_text(both)
        changes = {**made.addresses(port), "/etc/haproxy/odc.pem": str(directory / "odc.pem")}
        with real_balancer("haproxy", "haproxy-reencrypt.cfg", changes, directory, port):
            for each in made.consortium.names:
                made.consortium.go_through(each, port)
            yield made, port


def client(several: Several, name: str, port: int, *, with_certificate: bool = True) -> httpx.Client:
    home = several.consortium.sessions[name].home.path
    context = ssl.create_default_context(cafile=home / "root.pem")
    if with_certificate:
        context.load_cert_chain(home / "certificate.pem", home / "key.pem")
    return httpx.Client(base_url=f"https://localhost:{port}", verify=context)


def header_of(several: Several, name: str) -> dict[str, str]:
    """Return the header of a certificate, which is no secret."""
    pem = (several.consortium.sessions[name].home.path / "certificate.pem").read_text()
    return {"Client-Cert": f":{''.join(pem.split()[2:-2])}:"}


def test_a_round_is_played_through_it(behind: tuple[Several, int]) -> None:
    several, _port = behind
    found = several.consortium.anchored(latent_dim=4)
    several.send_all(found)
    several.consortium.receive_all(found)
    several.consortium.wait_for_judgement(found)
    assert several.steps(found).count("accept uplink") == 2


def test_a_member_cannot_set_the_header(behind: tuple[Several, int]) -> None:
    several, port = behind
    lead, other = several.consortium.names
    with client(several, other, port) as by_other, client(several, lead, port) as by_lead:
        assert by_lead.get("/v1/enrolments").status_code == 200  # the lead alone may ask for this
        forged = by_other.get("/v1/enrolments", headers=header_of(several, lead))
    assert forged.json()["type"].endswith("/not-permitted")
    with client(several, other, port, with_certificate=False) as by_stranger:
        answer = by_stranger.get("/v1/enrolments", headers=header_of(several, lead))
    assert answer.json()["type"].endswith("/certificate-required")


def test_nobody_gets_past_it(behind: tuple[Several, int]) -> None:
    several, _port = behind
    lead, other = several.consortium.names
    for analyst in several.analysts:
        with client(several, other, analyst.port) as direct:
            for headers in ({}, header_of(several, lead)):
                answer = direct.get("/v1/collaborations", headers=headers)
                assert answer.status_code == 403
                assert "its balancer alone" in answer.json()["detail"]
