"""Runs of format 2, whose words were others, read in the words of today: here, once, for everybody who looks at a run.

Nothing in such a directory is rewritten. What is read of it (``run.json``, the views over its parts) has today's words;
what a resumed run adds has the columns that its parts have, and is read in the same way.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from misdetect.said.glossary import COLUMNS, SETTINGS, VALUES

OLDER = 2
"""The format whose words were others."""
_STORED = {new: old for old, new in COLUMNS.items()}


def renewed(about: Mapping[str, Any]) -> dict[str, Any]:
    """A ``run.json`` with the settings' names of today. It stays a run of its format."""
    if about["format"] != OLDER:
        return dict(about)
    found = {SETTINGS.get(name, name): value for name, value in about["identity"]["settings"].items()}
    return {**about, "identity": {**about["identity"], "settings": found}}


def stored_schema(about: Mapping[str, Any], schema: pa.Schema) -> pa.Schema:
    """``schema`` as the parts of that run have it."""
    if about.get("format") != OLDER:
        return schema
    return pa.schema([field.with_name(_STORED.get(field.name, field.name)) for field in schema])


def name_now(stored: str) -> str:
    """What a column of a part is called today."""
    return COLUMNS.get(stored, stored)


def columns_now(about: Mapping[str, Any], stored: pa.Schema) -> str:
    """What to SELECT of parts with the columns ``stored``: everything but errors, in the words of today."""
    everything = "* EXCLUDE (error, error_image)"
    if about.get("format") != OLDER:
        return everything
    replaced = ", ".join(f'{value} AS "{name}"' for name, value in _values(stored))
    renamed = ", ".join(f'"{old}" AS "{new}"' for old, new in COLUMNS.items() if old in stored.names)
    return everything + (f" REPLACE ({replaced})" if replaced else "") + (f" RENAME ({renamed})" if renamed else "")


def case_now(about: Mapping[str, Any], stored: pa.Schema) -> str:
    """The name of a case, in SQL: where it is made of a condition, that one is called as it is today."""
    if about.get("format") != OLDER or "condition" not in stored.names:
        return '"case"'
    found = '"case"'
    for old, new in VALUES["condition"].items():
        named = f"condition = '{old}' OR (condition IS NULL AND regexp_full_match(\"case\", '[0-9]+/{old}(/.*)?'))"
        found = f"CASE WHEN {named} THEN replace(\"case\", '/{old}', '/{new}') ELSE {found} END"
    return found


def _values(stored: pa.Schema) -> Iterator[tuple[str, str]]:
    """The columns whose values were others, and what they are now; also where lists of structs have such a field."""
    if (case := case_now({"format": OLDER}, stored)) != '"case"':
        yield "case", case
    for field in stored:
        if field.name in VALUES and pa.types.is_string(field.type):
            yield field.name, _value(f'"{field.name}"', VALUES[field.name])
        elif pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
            inner = [each.name for each in field.type.value_type if each.name in VALUES]
            if inner:
                new = ", ".join(f"{name} := {_value('each.' + name, VALUES[name])}" for name in inner)
                yield field.name, f'[struct_update(each, {new}) FOR each IN "{field.name}"]'


def _value(of: str, renamed: Mapping[str, str]) -> str:
    cases = " ".join(f"WHEN '{old}' THEN '{new}'" for old, new in renamed.items())
    return f"CASE {of} {cases} ELSE {of} END"
