"""A table somewhere, and how to read it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from protocol.errors import InputError
from user_client.tables.database import is_database, refuse_other_url, refuse_password
from user_client.tables.dialect import PLAIN, Dialect
from user_client.tables.files import is_csv, is_excel
from user_client.tables.guess import guess_dialect


@dataclass(frozen=True)
class Source:
    """A table somewhere, and how to read it; it stands for the table wherever a path does.

    Attributes
    ----------
    place : path or str
        A file, or the URL of a database, without a password.
    dialect : Dialect
        How a CSV file is written.
    sheet : str, optional
        Of an Excel workbook; needed if it has several.
    query : str, optional
        What a database is asked; needed for one.
    watch : callable, optional
        Is told how many bytes of the file are read, and how many it has; of a workbook and of a database it
        is told nothing.

    Raises
    ------
    InputError
        If one of these goes with another kind of table.
    """

    place: Path | str
    dialect: Dialect = PLAIN
    sheet: str | None = None
    query: str | None = None
    watch: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_other_url(self.place)
        if self.is_database:
            refuse_password(str(self.place))
        elif self.query is not None:
            raise InputError(f"--query goes with the URL of a database, and {self.place} is none")
        if self.sheet is not None and (self.is_database or not is_excel(self.path)):
            raise InputError(f"--sheet goes with an Excel workbook, and by its name {self.place} is none")

    @property
    def is_database(self) -> bool:
        """Whether the table is the result of a query."""
        return is_database(self.place)

    @property
    def path(self) -> Path:
        """The file, if the table is one."""
        return Path(self.place)

    def guessed(self, said: Dialect) -> Source:
        """Return the same table, with a guess at what was not said of a CSV file.

        Raises
        ------
        InputError
            If something was said of how a CSV file is written, and the table is none.
        UnreadableFileError
            If the file does not tell.
        """
        if not self.is_database and is_csv(self.path):
            return replace(self, dialect=guess_dialect(self.path, said))
        if said != Dialect():
            raise InputError(f"--csv goes with a CSV file, and by its name {self.place} is none")
        return self

    @property
    def written(self) -> Dialect:
        """How a CSV file is written that goes beside this table: as this one, if it is CSV."""
        return self.dialect if not self.is_database and is_csv(self.path) else PLAIN

    def is_at(self, path: Path) -> bool:
        """Return whether the table is the file at a path."""
        return not self.is_database and self.path.exists() and path.exists() and self.path.samefile(path)

    def file_digest(self) -> str:
        """Return the digest of a file and of how it is read; empty if there is none."""
        if not self.path.is_file():
            return ""
        with self.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
        if self.dialect != PLAIN or self.sheet is not None:
            found.update(f"{self.dialect.words}\n{self.sheet or ''}".encode())
        return found.hexdigest()
