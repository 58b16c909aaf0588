"""What the JSON answers of the analyst contain, as both sides read them; ``--json`` shows the same.

The analyst's OpenAPI document is made from these types, their docstrings included.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from protocol.messages import Role
from protocol.suspicions import Suspected
from protocol.tokens import TokenRow


@with_config(ConfigDict(use_attribute_docstrings=True))
class Answer(TypedDict):
    """The base of all JSON answers and of their parts."""


class Limits(Answer):
    """How much an analyst takes (docs/protocol.md, section 13)."""

    message_bytes: int
    uplink_bytes: int
    """Of one array of an uplink."""
    min_chunk_bytes: int
    max_chunk_bytes: int
    default_chunk_bytes: int


class Discovery(Answer):
    """What an analyst speaks: the answer of `DISCOVER`."""

    service: Literal["odc-analyst"]
    software: str
    wire_versions: list[int]
    media_types: list[str]
    limits: Limits


Works = Literal["ok", "failing"]
ComputeWorks = Literal["ok", "failing", "waiting"]


class Health(Answer):
    """The answer of `HEALTH`."""

    status: Literal["ok"]


class Readiness(Answer):
    """What works: the answer of `READINESS`."""

    status: Works
    """``ok`` if none of the others is ``failing``."""
    database: Works
    arrays: Works
    """Whether they are where the records have them, and not in a directory that is not mounted."""
    disk: Works
    compute: ComputeWorks
    """``waiting``: rounds wait for workers that are elsewhere; uplinks are taken."""


class MemberStatus(Answer):
    """What one member has done."""

    party: str
    accepted: bool
    anchor_ready: bool
    uplink: Literal["none", "receiving", "received"]
    arrived_bytes: NotRequired[int]
    """How much of the arrays has come, while an uplink is received."""
    payload_bytes: NotRequired[int]
    """How much there will be, beside ``arrived_bytes``."""
    rows: int | None
    """None until the uplink is received, and under sums, where nobody learns it."""
    downlink: Literal["none", "ready", "fetched"]
    last_seen_at: int | None
    late_consumer: bool
    """Whether it sends no rows, and only after the release."""
    refused: str | None
    """Why a late consumer could not be aligned."""
    excluded: NotRequired[bool]
    """Whether the analyst's operator has left it out. Analysts of earlier versions do not say."""
    rejected: NotRequired[str | None]
    """Why it does not sign the terms; None unless it has said so."""
    suspected: NotRequired[Suspected]
    """Which assumption of the alignment it breaks; there only if it does."""
    left_out: NotRequired[bool]
    """Whether the rows of a suspected party do not train the model."""


MOVING: Final = ("last_seen_at", "arrived_bytes", "payload_bytes")
"""What of a member changes all the time, and is no news."""


class Viewer(Answer):
    """The member who asks."""

    party: str
    role: Role


class Computing(Answer):
    """How far the computation of a round is."""

    stage: Literal["checking", "aligning", "training", "judging"]
    at: int
    """When that was so, in unix seconds."""
    done: NotRequired[int]
    """How much of the stage is done, where that can be counted."""
    of: NotRequired[int]
    """How much there is at most, beside ``done``."""
    unit: NotRequired[Literal["epochs", "trees", "steps", "candidates"]]
    """What is counted, beside ``done``."""


class Status(Answer):
    """The state of a collaboration: the answer of `COLLABORATION_STATUS`, and what ``--json`` shows."""

    collaboration_id: str
    title: str
    state: str
    members: list[MemberStatus]
    waiting_for: NotRequired[list[str]]
    """Who has to act next, and with which command. Not in the status of the caller alone."""
    failure: str | None
    judging: NotRequired[bool]
    """Whether the model is still being judged. Analysts of earlier versions do not say."""
    unreadable: NotRequired[bool]
    """True where a newer server has stored terms that the one that answers cannot read; else not there.

    In a list alone: then no member is named a late consumer, no rows are told, and `waiting_for` says so.
    """
    held: NotRequired[bool]
    """True where the round is computed and waits for the operator to release it; else not there."""
    computing: NotRequired[Computing]
    """How far the computation is; there only while one runs that takes longer than a second."""
    erase_at: NotRequired[int]
    """Unix time at which the terms' `retention_days` are over, once something was received."""
    you: Viewer | None
    """None for the operator."""


class ProblemType(Answer):
    """What the type of a problem means: the answer of `DESCRIBE_PROBLEM`."""

    type: str
    title: str
    status: int
    hint: str
    about: str
    """In a sentence, whatever the case."""


class TermsInWords(Answer):
    """What people read of the terms: the answer of `TERMS_IN_WORDS`."""

    collaboration_id: str
    plain_words: str


class Collaborations(Answer):
    """The answer of `LIST_COLLABORATIONS`."""

    collaborations: list[Status]
    next: NotRequired[str]
    """What to ask on after; there only if a page was asked for, and there are more."""


class Tokens(Answer):
    """The answer of `LIST_TOKENS`."""

    tokens: list[TokenRow]


class Upload(Answer):
    """Where an upload stands: the answer of `BEGIN_UPLINK`."""

    upload_id: str
    offset: int
    """How many bytes of the stream are kept."""
    begun: int
    """How many of the next chunk besides, unchecked."""
    length: int
    complete: bool


class Score(Answer):
    """The content of a `MemberScore`, as people and machines are shown it."""

    rows: int
    metric: Literal["roc_auc", "accuracy", "r2", "c_index"]
    together: float
    alone: float | None
    gain_low: float | None
    gain_high: float | None


class ReportedScore(Score):
    """A score that a member has sent back."""

    party: str
    received_at: int


class ReportHead(Answer):
    """What both sides read of a report: the answer of `COLLABORATION_REPORT` has more."""

    collaboration_id: str
    title: str
    state: str
    failure: str | None
    uplink: str
    """Whether the institutions sent rows or sums."""
    alignment: str
    """The name of the method; "none" for sums."""
    features: int
    latent_dim: int
    downlink: str
    member_scores: list[ReportedScore]
    """What the members have sent back, by party."""
    excluded: NotRequired[list[str]]
    """Parties that the analyst's operator has left out. Analysts of earlier versions do not say."""


class MemberReport(ReportHead):
    """A report as a member reads it, whatever its analyst's version has measured."""

    results: dict[str, Any] | None
    parties: NotRequired[list[dict[str, Any]]]
    """Those whose uplinks the round is of."""
