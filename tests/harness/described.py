"""Schemathesis against the analyst's application: all that its description allows is asked, as one caller.

Generated requests mostly meet what does not exist. So two of three that fit the description are given what
exists: the ids, header fields and bodies of the fuzz tests' seeds, where messages have valid signatures. The
analyst has rounds in several states, and is put back to how it was after each request that changed something.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import schemathesis
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine import events, from_schema
from schemathesis.generation import GenerationMode
from schemathesis.hooks import GLOBAL_HOOK_DISPATCHER
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analyst_server.api.access import TOKEN
from protocol.operations import CRL_MEDIA_TYPE, PUBLISH_TERMS, find
from protocol.version import MEDIA_TYPE, STREAM_MEDIA_TYPE, UPLOAD_MEDIA_TYPE
from tests.fuzz.served import Stage, parsed, request_seeds
from tests.fuzz.tokens import TOKENS
from tests.harness.app import WithCertificate
from tests.harness.certificates import shared_member
from tests.harness.world import HOSPITAL, LEAD, role_of

CALLERS: Final = ("nobody", LEAD, HOSPITAL, "hospital-z", "analyst", "unknown-token", *TOKENS)
UNKNOWN_TOKEN: Final = "odct_" + "u" * 43
"""Everybody of the access matrix whose answers differ: ``hospital-z`` is a member of no round."""

OFF: Final[dict[str, str]] = {
    "positive_data_acceptance": "a schema cannot say which signature holds, nor in which state a round is",
}
"""Checks that are off, and why."""
REFUSED: Final = {"negative_data_rejection": {"expected-statuses": ["4xx", "5xx"]}}
"""413 too, which schemathesis takes for an acceptance: a list of too many groups is a large body."""
OFF_FOR: Final = (
    (
        {"include-name": "GET /readyz"},
        "not_a_server_error",
        "503 is what it is there for; no worker runs here",
    ),
)
OFF_FOR_CERTIFICATES: Final = (
    (
        {"include-path-regex": "/"},
        "ignored_auth",
        "the certificate is below HTTP, where no request can leave it out; the access matrix asks without",
    ),
    (
        {"include-tag": "operator"},
        "missing_required_header",
        "the one such header is Authorization, and whoever shows a certificate is known: 403, not 401",
    ),
)
"""Checks that are off for some operations, and why."""


TERMS: Final = {"include-name": f"{PUBLISH_TERMS.method} {PUBLISH_TERMS.path}"}


def by_certificate(caller: str) -> bool:
    return caller in (LEAD, HOSPITAL, "hospital-z", "analyst")


def answered_as(app: ASGIApp, caller: str) -> ASGIApp:
    """Return an application whose requests come with the certificate of a caller."""
    pem = shared_member(role_of(caller), caller).pem.decode() if by_certificate(caller) else None
    return WithCertificate(app, pem)


@dataclass
class Served:
    """The application of a `Stage`, which is put back after each change."""

    stage: Stage
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _without_workers(receive, send)
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.stage.app(scope, receive, noted)
        called = find(scope["method"], scope["path"])
        self.statuses[called[0].name if called else "", status] += 1
        if scope["method"] not in ("GET", "HEAD") and status < 300:
            self.stage.put_back()


async def _without_workers(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


@dataclass(frozen=True)
class Occasion:
    """A request that has a meaning."""

    ids: dict[str, str]
    headers: dict[str, str]
    body: bytes


def occasions(upload_id: str, caller: str) -> dict[tuple[str, str], list[Occasion]]:
    """Return the seeds of the fuzz tests by method and path of their operation: first the caller's own."""
    found: defaultdict[tuple[str, str], list[Occasion]] = defaultdict(list)
    made = [one for seed in request_seeds() if (one := parsed(seed, upload_id)) is not None]
    made.reverse()  # the last have the messages that belong to their addresses
    for _, scope, body in sorted(made, key=lambda one: one[0] != caller):
        called = find(scope["method"], scope["path"])
        if called is not None:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            for name in ("authorization", "content-type"):  # the caller's own, and the description's
                headers.pop(name, None)
            operation, ids = called
            found[operation.method, operation.path].append(Occasion(ids, headers, body))
    return found


@dataclass
class Meaning:
    """Gives two of three requests the content of an occasion, but for what is to be refused in them."""

    found: dict[tuple[str, str], list[Occasion]]
    _turn: Counter[tuple[str, str, bool]] = field(default_factory=Counter)

    def before_call(self, _context: Any, case: Any, kwargs: dict[str, Any]) -> None:
        which = (case.method.upper(), case.path)
        fits = case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE
        turn = self._turn[*which, fits]
        self._turn[*which, fits] += 1
        if turn % 3 == 2 or which not in self.found:
            return
        one = self.found[which][(turn - turn // 3) % len(self.found[which])]
        if fits or not case.meta.is_negative_at(ParameterLocation.PATH):
            case.path_parameters = {**case.path_parameters, **one.ids}
        if fits:
            case.headers.update(one.headers)
            if one.body:
                kwargs["data"] = (
                    one.body
                )  # in the case itself, schemathesis would take bytes for a wrong type


@dataclass
class Outcome:
    """What a run has found, and how much it has asked."""

    findings: list[str] = field(default_factory=list)
    requests: int = 0
    answered: set[str] = field(default_factory=set)
    """Operations with a successful answer."""


def configured(caller: str, examples: int, seed: int | None) -> SchemathesisConfig:
    """Return the settings of a run; without a seed a short one, which is the same each time."""
    token = _token(caller)
    off = [*OFF_FOR, *(OFF_FOR_CERTIFICATES if by_certificate(caller) else ())]
    operations = [{**which, "checks": {check: {"enabled": False}}} for which, check, _ in off]
    if seed is None and caller != "operator":  # its schema has two thousand edges, and all others are refused
        operations.append({**TERMS, "phases": {"coverage": {"enabled": False}}})
    return SchemathesisConfig.from_dict(
        {
            **({} if seed is None else {"seed": seed}),
            "generation": {"max-examples": examples, "deterministic": seed is None, "database": "none"},
            "phases": {"stateful": {"enabled": False}},  # a state that is put back has no sequences
            "checks": {**{name: {"enabled": False} for name in OFF}, **REFUSED},
            "operations": operations,
            **({"auth": {"openapi": {TOKEN: {"bearer": token}}}} if token else {}),
        }
    )


def _token(caller: str) -> str | None:
    return UNKNOWN_TOKEN if caller == "unknown-token" else TOKENS.get(caller)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep thousands of refusals out of the log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def hooked(before_call: Callable[..., None]) -> Iterator[None]:
    """Let a function see every request before it is sent; there is one list of such for all schemas."""

    def hook(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
        before_call(context, case, kwargs)

    schemathesis.hook("before_call")(hook)
    try:
        yield
    finally:
        GLOBAL_HOOK_DISPATCHER.unregister(hook)


def ask_everything(app: ASGIApp, config: SchemathesisConfig, meaning: Meaning) -> list[str]:
    """Return what schemathesis finds when it asks an application all that its description allows."""
    with quiet(), hooked(meaning.before_call):
        schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
        return list(_findings(schema))


def run(directory: Path, caller: str, examples: int, seed: int | None = None) -> Outcome:
    """Ask every operation as one caller; by a seed, or the same each time."""
    stage = Stage(directory)
    served = Served(stage)
    config = configured(caller, examples, seed)
    meaning = Meaning(occasions(stage.upload_id, caller))
    outcome = Outcome(ask_everything(answered_as(served, caller), config, meaning))
    stage.close()
    outcome.requests = served.statuses.total()
    outcome.answered = {name for name, status in served.statuses if 200 <= status < 300}
    return outcome


def _findings(schema: Any) -> Iterator[str]:
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            yield f"{event.label}: {event.info}"
        elif isinstance(event, events.FatalError):
            raise event.exception
        elif isinstance(event, events.ScenarioFinished):
            for checks in event.recorder.checks.values():
                for check in checks:
                    if check.failure_info is not None:
                        failure = check.failure_info.failure
                        how = f"{failure.message}\n    {check.failure_info.code_sample}"
                        yield f"{event.label}: {check.name}: {failure.title}: {how}"


def _register_media_types() -> None:
    for name in (MEDIA_TYPE, STREAM_MEDIA_TYPE, UPLOAD_MEDIA_TYPE, CRL_MEDIA_TYPE):
        schemathesis.openapi.media_type(name, st.binary(max_size=200))


_register_media_types()
