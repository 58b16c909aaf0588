"""What an archive of evidence says of itself, signed by the institution that makes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import FailFast, Field, model_validator

from protocol.codec import Message
from protocol.limits import MAX_EVIDENCE_FILES
from protocol.messages import Count, Digest, UnixTime
from protocol.texts import Identifier, Name, PartyName


class EvidenceFile(Message):
    """One file of an archive of evidence."""

    name: Name
    size_bytes: Count
    digest: Digest
    """SHA-256 of its content."""


class EvidenceIndex(Message):
    """What an institution shows an auditor of one collaboration, signed by it (`odc evidence`)."""

    signing_label: ClassVar[str] = "odc/v1/evidence-index"

    consortium_id: Identifier
    collaboration_id: Identifier
    terms_digest: Digest
    party: PartyName
    made_at: UnixTime
    files: Annotated[tuple[EvidenceFile, ...], FailFast()] = Field(
        min_length=1, max_length=MAX_EVIDENCE_FILES
    )
    """Every file of the archive but the index itself, by name."""
    absent: Annotated[tuple[Name, ...], FailFast()] = Field(max_length=MAX_EVIDENCE_FILES)
    """The files, by name, of steps that have not happened or of which nothing is stored."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [file.name for file in self.files]
        if names != sorted(set(names)) or list(self.absent) != sorted(set(self.absent)):
            raise ValueError("files and absent name each file once, in ascending order")
        if set(names) & set(self.absent):
            raise ValueError("a file is there or absent, not both")
        return self
