"""The terms of a simulated round: given, or drafted as the lead would draft them, with changes by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pydantic import ValidationError

from orthonormal_data_collaboration.parties import Data
from protocol.anchor_terms import ANCHORS, WELL_PREDICTED_ROWS
from protocol.codec import explain
from protocol.errors import InputError
from protocol.labels import Task
from protocol.table_schema import Schema
from protocol.terms import Terms
from runtime.drafts import parsed_draft
from runtime.files import read_text
from user_client.sdk import DraftedEvent, DraftedTerms, draft_terms, with_sums
from user_client.sdk.agreement import BY_CLASS_MODEL, Agreement
from user_client.tables import table_from
from user_client.tables.draft import MISSING_TEXTS, DraftedSchema
from user_client.tables.draft_label import classes_label, number_label, several_labels

AnyTerms = Terms | DraftedTerms | Mapping[str, Any] | str | Path
FEWEST_ANCHOR_ROWS: Final = 1000
"""Of an anchor that is not square, if nobody says how many; the papers take 1000 for images."""
_IDS: Final = {"consortium_id": "c0" * 16, "collaboration_id": "c1" * 16}
"""No consortium has them."""
_OF_DRAFT: Final = (
    "encoding",
    "exclude",
    "categories",
    "dates",
    "durations",
    "ordinals",
    "others",
    "imputes",
    "logarithms",
    "missing",
    "missing_in",
    "label_range",
)
_OF_SUMS: Final = ("random_features", "cohort", "epsilon")
_FIXED: Final = {"parties", "lead", "terms_schema", "analyst_key", "late_consumers", "retention_days", *_IDS}
"""Fields of terms that say nothing about a simulated round, or that the parties say."""
_FIELDS: Final = sorted(set(Terms.model_fields) - _FIXED)


def terms_of(
    data: Data,
    given: AnyTerms | None,
    *,
    event: DraftedEvent | None,
    drafted_by: Any,
    changes: Mapping[str, Any],
) -> tuple[Terms, list[str]]:
    """Return the terms of a round, and the remarks of their draft.

    Parameters
    ----------
    given : Terms, DraftedTerms, mapping or path, optional
        Terms, a draft, its content or its file. Without it the terms are drafted.
    drafted_by : {"lead", "all"} or table
        Whose rows the draft is made from.
    changes : mapping of str to object
        Fields of the terms, and options of `draft_terms` for a draft.

    Raises
    ------
    InputError
        If a name is unknown, or the fields do not go together.
    """
    allowed = {*_FIELDS, *(() if given is not None else _OF_DRAFT)}
    if unknown := sorted(set(changes) - allowed):
        error = InputError(f"{unknown[0]} is no field of terms and no option of a draft")
        error.hint = f"take one of {', '.join(sorted(allowed))}"
        raise error
    fields = {name: value for name, value in changes.items() if name in _FIELDS}
    if not isinstance(fields.get("sums", {}), Mapping):
        raise InputError("sums is a mapping of its fields, such as {} or {'random_features': 100}")
    if not isinstance(fields.get("anchor", ""), str | Mapping):
        raise InputError("anchor is a name or a mapping of its fields, such as 'uniform'")
    if given is None:
        content, remarks = _drafted(data, event, drafted_by, changes, fields)
    else:
        remarks = []
        content = dict(_content_of(given))
        _check_parties(content, data)
        if "sums" in fields:
            fields = {**fields, "sums": dict(fields["sums"])}
        if (task := task_of(content)) != data.task:
            raise InputError(f"the terms predict {task}, and the labels are for {data.task}")
        if task == "multilabel" and (named := _labels_in(content)) != data.labels:
            raise InputError(f"label has to name the labels in the order of the terms: {', '.join(named)}")
    width = _width(content, fields)
    content |= {name: _spelt_out(name, value, width, content, fields) for name, value in fields.items()}
    content |= {**_IDS, "parties": list(data.tables), "lead": next(iter(data.tables))}
    try:
        return Terms.model_validate(content, strict=False), remarks
    except ValidationError as error:
        raise InputError(f"terms: {explain(error)}") from None


def task_of(given: AnyTerms) -> Task:
    """Return what given terms predict."""
    label = (_content_of(given).get("table_schema") or {}).get("label_column") or {}
    kind: Task = label.get("kind", "classes")
    return kind


def _labels_in(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the several labels of terms."""
    return tuple(one["name"] for one in content["table_schema"]["label_column"]["labels"])


def _content_of(given: AnyTerms) -> Mapping[str, Any]:
    if isinstance(given, Terms):
        return given.model_dump(mode="json")
    if isinstance(given, DraftedTerms):
        return given.content
    if isinstance(given, str | Path):
        path = Path(given)
        return parsed_draft(read_text(path), is_json=path.suffix == ".json", named=str(path))
    if isinstance(given, Mapping):
        return given
    raise InputError(
        "terms are Terms, DraftedTerms, a mapping of their fields, or the path of a TOML or JSON file, and"
        f" this is a {type(given).__name__}"
    )


def _check_parties(content: Mapping[str, Any], data: Data) -> None:
    named = content.get("parties")
    if named is not None and set(named) != set(data.tables):
        raise InputError(f"the terms are for {', '.join(named)}, and rows came of {', '.join(data.tables)}")


def _drafted(
    data: Data,
    event: DraftedEvent | None,
    drafted_by: Any,
    changes: Mapping[str, Any],
    fields: dict[str, Any],
) -> tuple[dict[str, Any], list[str]]:
    """Return the content of a draft, and its remarks; fields that it uses up are taken out of ``fields``."""
    table = _table_to_draft_from(data, drafted_by)
    options = {name: changes[name] for name in _OF_DRAFT if name in changes}
    names, title = list(data.tables), str(fields.get("title", "simulation"))
    latent_dim = fields.get("latent_dim")
    if options.get("encoding") == "none":
        return _as_they_are(data, table, names, title, latent_dim), []
    sums = fields.pop("sums", None)
    is_by_class = _kind(fields.get("model"), "kind") == BY_CLASS_MODEL
    agreed: dict[str, Any] = {"model": BY_CLASS_MODEL} if is_by_class else {}
    if sums is None and isinstance(fields.get("dither"), int | float):
        agreed["dither"] = fields["dither"]  # the draft says what it costs
    drafted = draft_terms(
        table,
        label=data.labels,
        latent_dim=None if sums is not None else latent_dim,
        classes=list(data.classes),
        event=event,
        task=data.task,
        parties=names,
        title=title,
        **agreed,
        **options,
    )
    if sums is None:
        return drafted.content, drafted.remarks
    asked = {name: sums[name] for name in _OF_SUMS if name in sums}
    summed = with_sums(drafted, table, **asked)
    content = summed.content
    others = {name: value for name, value in sums.items() if name not in _OF_SUMS}
    return {**content, "sums": {**content["sums"], **others}}, summed.remarks


def _table_to_draft_from(data: Data, drafted_by: Any) -> pa.Table:
    if isinstance(drafted_by, str) and drafted_by == "lead":
        return next(iter(data.tables.values()))
    if isinstance(drafted_by, str) and drafted_by == "all":
        return pa.concat_tables(data.tables.values(), promote_options="permissive")
    if isinstance(drafted_by, str):
        raise InputError(f"drafted_by must be lead, all or a table, got {drafted_by}")
    return table_from(drafted_by)


def _as_they_are(
    data: Data, table: pa.Table, names: list[str], title: str, latent_dim: int | None
) -> dict[str, Any]:
    """Return terms whose encoding changes no number: the rows of the papers' experiments."""
    if latent_dim is None:
        raise InputError("encoding none needs latent_dim: nothing is measured to draft it")
    if data.task == "survival":
        raise InputError("encoding none goes with classes, numbers and several labels")
    if data.task == "multilabel":
        label = several_labels(table, data.labels, MISSING_TEXTS)
    elif data.task == "number":
        label = number_label(table, data.label, MISSING_TEXTS, None)
    else:
        label = classes_label(table, data.label, MISSING_TEXTS, list(data.classes))
    columns = [
        {"kind": "numeric", "name": name, "low": -1.0, "high": 1.0}
        for name in table.column_names
        if name not in data.labels
    ]
    content = {"missing": list(MISSING_TEXTS), "label_column": label.content, "columns": columns}
    schema = Schema.model_validate(content, strict=False)
    agreement = Agreement(parties=names, title=title, task=data.task)
    return agreement.terms(DraftedSchema(content), schema, latent_dim)


def _width(content: Mapping[str, Any], fields: Mapping[str, Any]) -> int:
    schema = fields.get("table_schema", content.get("table_schema"))
    if schema is None:
        raise InputError("terms need a table_schema; without terms they are drafted")
    try:
        return Schema.model_validate(schema, strict=False).width
    except ValidationError as error:
        raise InputError(f"table_schema: {explain(error)}") from None


def _spelt_out(
    name: str, value: Any, width: int, content: Mapping[str, Any], fields: Mapping[str, Any]
) -> Any:
    """Return a field of the terms; a method, model or anchor may be given by its name alone."""
    if name == "alignment" and isinstance(value, str):
        return {"method": value}
    if name == "model" and isinstance(value, str):
        return {"kind": value}
    if name != "anchor":
        return value
    anchor = {"kind": value} if isinstance(value, str) else dict(value)
    if "rows" not in anchor and (traits := ANCHORS.get(anchor.get("kind", "haar"))):
        downlink = fields.get("downlink", content.get("downlink"))
        per_feature = WELL_PREDICTED_ROWS if downlink == "anchor-predictions" else 1
        anchor["rows"] = width if traits.is_square else max(FEWEST_ANCHOR_ROWS, per_feature * width)
    return anchor


def _kind(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else value
