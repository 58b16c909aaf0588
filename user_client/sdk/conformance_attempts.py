"""What one attempt of the conformance kit is: a request, and what has to be answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from protocol.errors import OdcError
from user_client.transport import AnalystConnection


class SkippedError(Exception):
    """A check that cannot be made here, and why."""


class WrongAnswerError(Exception):
    """An answer that docs/protocol.md does not allow."""


@dataclass(frozen=True)
class Attempt:
    """What is tried, the section that asks for it, and the attempt, which raises if the answer is another."""

    what: str
    section: str
    run: Callable[[], None]
    says: str = ""
    """The words of the section that are tried, where one sentence has them."""


def refused(
    connection: AnalystConnection,
    expected: str,
    method: str,
    path: str,
    content: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> None:
    """Require that a request is answered with a problem of this slug."""
    try:
        answer = connection.request_once(method, path, content=content, headers=headers)
    except OdcError as error:
        found = error.code
        detail = error.detail
    else:
        found, detail = str(answer.status), "it was taken"
    require(found == expected, f"expected {expected}, got {found}: {detail}")


def refusal(
    connection: AnalystConnection,
    expected: str,
    method: str,
    path: str,
    content: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Callable[[], None]:
    """Return an attempt that requires just that."""
    return lambda: refused(connection, expected, method, path, content, headers)


def require(holds: bool, otherwise: str) -> None:
    """Raise `WrongAnswerError` with a text unless something holds."""
    if not holds:
        raise WrongAnswerError(otherwise)
