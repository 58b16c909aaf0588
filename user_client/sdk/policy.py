"""The policy of an institution: what attacks on its own rows may find at most, before anything is sent."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from protocol.arrays import quantise
from protocol.codec import explain
from protocol.errors import InputError, UnreadableFileError
from protocol.joined_rows import JoinedRows
from protocol.table_schema import Schema
from protocol.terms import ExposureTerms, Terms
from runtime.files import read_bytes, write_whole
from user_client.custody.home import Home
from user_client.custody.keystream import KeyStream
from user_client.errors import PolicyError
from user_client.privacy.information import Information
from user_client.privacy.noise import add_dither
from user_client.sdk.desk import Exposed, attack, decoded, found_columns, largest_exact_share, level_of
from user_client.sdk.prepared import Prepared
from user_client.sdk.privacy import bits_of
from user_client.secret.expansion import gaussian

DITHERS: Final = (0.25, 0.5, 1.0, 2.0)
"""Among which terms are looked for that a policy allows."""


class Policy(BaseModel):
    """Limits that hold for every round of this institution; None and () limit nothing.

    Attributes
    ----------
    max_exact_rows : float
        Largest share of rows that an attack may rebuild in every column, 0 to 1.
    max_found_columns : int
        Largest number of columns that may be found without the basis.
    min_hidden_bits : float
        Fewest bits of a row that cannot leave.
    never : tuple of str
        Columns that no terms may name, also not as the label, which leaves as it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_exact_rows: float | None = Field(default=None, ge=0, le=1)
    max_found_columns: int | None = Field(default=None, ge=0)
    min_hidden_bits: float | None = Field(default=None, ge=0)
    never: tuple[str, ...] = ()

    @property
    def needs_attacks(self) -> bool:
        """Whether the attacks have to be tried before anything is sent."""
        return self.max_exact_rows is not None or self.max_found_columns is not None

    def violations(self, schema: Schema, prepared: Prepared) -> Iterator[str]:
        """Yield a phrase for every limit that an uplink breaks."""
        yield from self._named(schema)
        if prepared.options.own_map is not None and prepared.rows:
            yield from self._not_measured()
        elif prepared.information is None:  # without rows nothing can be found
            return
        else:
            yield from self._bits(prepared.information)
        yield from self._found(prepared)

    def _not_measured(self) -> Iterator[str]:
        """Yield the limits that nothing measures where rows go through a non-linear map."""
        for name in ("min_hidden_bits", "max_exact_rows"):
            if getattr(self, name) is not None:
                yield f"{name} is measured of linear maps alone: leave out --own-map"

    def _bits(self, information: Information) -> Iterator[str]:
        row_bits, sent_bits = information.row_bits, information.sent_bits
        if self.min_hidden_bits is not None and row_bits - sent_bits < self.min_hidden_bits:
            yield (
                f"{self.min_hidden_bits:g} of a row's {row_bits:.0f} bits must stay here, and"
                f" {sent_bits:.0f} can leave"
            )

    def _found(self, prepared: Prepared) -> Iterator[str]:
        """Yield the limits that attacks on our own rows have broken."""
        if self.needs_attacks and not prepared.attacks:
            yield "the attacks were not tried: run `odc prepare TABLE` again"
            return
        needed = {"rows": self.max_exact_rows, "columns": self.max_found_columns}
        for tried in prepared.attacks:
            if not tried.ran and needed.get(tried.finds) is not None:
                yield f"{tried.name} could not be tried (it may need the extra [desk])"
        exact, columns = largest_exact_share(prepared.attacks), found_columns(prepared.attacks)
        if self.max_exact_rows is not None and exact > self.max_exact_rows:
            yield f"at most {self.max_exact_rows:.1%} of the rows may be rebuilt, and {exact:.1%} were"
        if self.max_found_columns is not None and len(columns) > self.max_found_columns:
            yield f"at most {self.max_found_columns} columns may be found, and {len(columns)} were"

    def check_schema(self, schema: Schema) -> None:
        """Raise `PolicyError` if terms name a column that never leaves."""
        if found := list(self._named(schema)):
            raise PolicyError(found)

    def check_row_key(self, group: JoinedRows | None) -> None:
        """Raise `PolicyError` if our rows would be joined by a column that never leaves, hashed or not."""
        if found := list(self._hashed(group)):
            raise PolicyError(found)

    def violations_under(self, terms: Terms, party: str, prepared: Prepared) -> list[str]:
        """Return a phrase for every limit that an uplink breaks, and if hashes leave that must not."""
        return [*self._hashed(terms.group_of(party)), *self.violations(terms.schema_of(party), prepared)]

    def terms_that_pass(self, uplink: Exposed, prepared: Prepared, stronger: Sequence[float]) -> str | None:
        """Return terms under which the same rows would be allowed, or None if none of these is enough.

        No dither makes up for a column that never leaves.

        Parameters
        ----------
        stronger : sequence of float
            Dithers to try, in ascending order, with 8-bit integers.
        """
        if any(self._named(uplink.schema)) or uplink.secret_basis is None:
            return None
        for dither in stronger:
            tried = _under(uplink, prepared, dither)
            if not any(self.violations(uplink.schema, tried)):
                return f"terms with a dither of {dither:g} and 8-bit integers (i1)"
        return None

    def and_of(self, exposure: ExposureTerms | None) -> Self:
        """Return the policy with the limits of terms as well: of two limits, the stricter."""
        if exposure is None:
            return self
        strictest = {"max_exact_rows": min, "max_found_columns": min, "min_hidden_bits": max}
        both = {name: (getattr(self, name), getattr(exposure, name)) for name in strictest}
        told = {name: [limit for limit in limits if limit is not None] for name, limits in both.items()}
        return self.changed(**{name: strictest[name](limits) for name, limits in told.items() if limits})

    def changed(self, **limits: object) -> Self:
        """Return the policy with other limits; raises `InputError` if one is out of its range."""
        try:
            return self.model_validate({**self.model_dump(), **limits})
        except ValidationError as error:
            raise InputError(f"policy: {explain(error)}") from None

    @classmethod
    def of(cls, home: Home) -> Self | None:
        """Return the policy of an institution, or None if it has none; raises `UnreadableFileError`."""
        if not home.policy_path.exists():
            return None
        try:
            return cls.model_validate(tomllib.loads(read_bytes(home.policy_path).decode()))
        except ValidationError as error:
            raise UnreadableFileError(home.policy_path, f"it is no policy: {explain(error)}") from None
        except ValueError as error:
            raise UnreadableFileError(home.policy_path, f"it is no TOML file: {error}") from None

    def store(self, home: Home) -> None:
        """Write the policy to the state directory."""
        write_whole(home.policy_path, tomli_w.dumps(self.model_dump(exclude_none=True)).encode())

    def _hashed(self, group: JoinedRows | None) -> Iterator[str]:
        if group is not None and group.row_key in self.never:
            yield f"the column {group.row_key} must never leave, and its hashes would: rows are joined by it"

    def _named(self, schema: Schema) -> Iterator[str]:
        names = {*(column.name for column in schema.columns), *schema.origins, *schema.label_column.columns}
        for name in sorted(names & set(self.never)):
            yield f"the column {name} must never leave"


def policy_under(terms: Terms, home: Home) -> Policy | None:
    """Return what holds for an uplink: our policy and the limits of the terms; None if there is neither."""
    own = Policy.of(home)
    return None if own is None and terms.exposure is None else (own or Policy()).and_of(terms.exposure)


def _under(uplink: Exposed, prepared: Prepared, dither: float) -> Prepared:
    """Return what the desk would find in the same rows with another dither, as 8-bit integers."""
    if uplink.secret_basis is None:
        raise ValueError("dither is tried on linear maps")
    projected = uplink.rows @ uplink.secret_basis
    normal = partial(gaussian, KeyStream.fresh("odc/v1/dither").read)
    rep = decoded(*quantise(add_dither(projected, dither, normal)))
    bits = bits_of(uplink.schema, uplink.rows, projected, number_type="i1", dither=dither)
    attacks = attack(replace(uplink, rep=rep, dither=dither), level_of(prepared.attacks))
    return replace(prepared, information=bits, attacks=attacks)
