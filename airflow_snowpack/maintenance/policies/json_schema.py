"""The JSON Schema of ``policies.yaml``, with which editors complete keys and mark mistakes.

    # yaml-language-server: $schema=policies.schema.json

It is made of the same definitions that :class:`~airflow_snowpack.maintenance.policies.rule.Rule` reads with. The invariant: what
the schema allows, a rule reads, apart from what a schema cannot express, such as the names of time zones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.options import action_class, policy_readers, usable_actions
from airflow_snowpack.maintenance.policies.definitions import ACTION_KEYS, EACH_ACTION, TABLE_KEYS, threshold
from airflow_snowpack.maintenance.readers import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.maintenance.policies.definitions import Key

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
    """Return the schema, with the actions that this installation has."""
    values = _of_keys(TABLE_KEYS) | {
        name: _of_key(key) | {"description": f"{key.doc} It holds for each action without its own."}
        for name, key in EACH_ACTION.items()
    }
    values["actions"] = _object({action: {"$ref": f"#/$defs/{action}"} for action in map(str, usable_actions())})
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
        "type": ["object", "null"],
        **{name: value for name, value in _object(top).items() if name != "type"},
        "$defs": {str(action): _of_action(action) for action in usable_actions()},
    }


def _of_action(action: str) -> dict[str, Any]:
    readers = policy_readers(action)
    keys = {name: key for name, key in ACTION_KEYS.items() if name != "where" or "where" in readers}
    numbers = {
        name: schema_of(threshold) | {"description": each.doc, "default": each.default}
        for name, each in action_class(action).thresholds.items()
    }
    options = {name: _nullable(schema_of(read)) for name, read in readers.items() if name != "where"}
    summary = str(action_class(action).__doc__).strip().partition("\n")[0]
    sections = {
        "thresholds": _object(numbers) | {"description": "The action is needed when one of these is reached."},
        "options": _object(options) | {"description": "The options of the action (docs/actions.md)."},
    }
    return _object(_of_keys(keys) | sections) | {"description": summary}


def _of_keys(keys: Mapping[str, Key]) -> dict[str, Any]:
    return {name: _of_key(key) | {"description": key.doc} for name, key in keys.items()}


def _of_key(key: Key) -> dict[str, Any]:
    schema = schema_of(key.read)
    return _nullable(schema) if key.nullable else schema


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
