"""The JSON Schema of ``policies.yaml``, for completion and validation in editors.

    # yaml-language-server: $schema=policies.schema.json

It is generated from the definitions that :class:`~airflow_snowpack.maintenance.policies.rule.Rule` reads with. The invariant: a
rule accepts what the schema allows, apart from what a schema cannot express, such as the names of time zones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_snowpack.maintenance.options import usable_actions
from airflow_snowpack.maintenance.policies.definitions import EACH_ACTION, TABLE_KEYS, Key, Section, section_of
from airflow_snowpack.maintenance.readers import schema_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ALL = r"\*\*"
OF_LEVEL = rf"({ALL}|\*|\*?[A-Za-z0-9_-]+(\*[A-Za-z0-9_-]+)*\*?)"
PATTERN = {
    "type": "string",
    "pattern": rf"^({ALL}|{OF_LEVEL}(\.{OF_LEVEL})+)$",
    "description": 'A pattern of table names: "analytics.*"; "*" matches within a level, "**" any number of levels.',
}
PATTERNS = {"anyOf": [PATTERN, {"type": "array", "items": PATTERN, "minItems": 1}]}
NONE_OR_PATTERNS = {"anyOf": [PATTERN, {"type": "array", "items": PATTERN}]}


def policies_schema() -> dict[str, Any]:
    """Return the schema, with the actions of this installation."""
    hint = "It holds for each action without its own."
    for_all = {name: replace(key, doc=f"{key.doc} {hint}") for name, key in EACH_ACTION.items()}
    values = {name: _schema(key) for name, key in (TABLE_KEYS | for_all).items()}
    values["actions"] = _object({action: {"$ref": f"#/$defs/{action}"} for action in usable_actions()})
    tables = {"tables": PATTERNS | {"description": "The tables that the rule is for."}}
    exclude = {"exclude": NONE_OR_PATTERNS | {"description": "Tables that the rule leaves alone."}}
    rule = _object(tables | exclude | values) | {"required": ["tables"]}
    top = {
        "default": _object(values) | {"description": "What holds for every table, below all rules."},
        "rules": {"type": ["array", "null"], "items": rule, "description": "The most specific rule that sets a value wins."},
    }
    return {
        "$schema": DIALECT,
        "title": "Policies of airflow-snowpack",
        **_object(top),
        "type": ["object", "null"],
        "$defs": {action: _schema(section_of(action)) for action in usable_actions()},
    }


def _schema(key: Key | Section) -> dict[str, Any]:
    if isinstance(key, Section):
        return _object({name: _schema(each) for name, each in key.keys.items()}) | {"description": key.doc}
    schema = schema_of(key.read)
    if key.nullable and schema:
        schema = {"anyOf": [schema, {"type": "null"}]}
    described = {"description": key.doc or None, "default": key.default}
    return schema | {name: value for name, value in described.items() if value is not None}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
