"""The keys of a rule, their defaults, and the JSON Schema of ``policies.yaml`` from them.

Rules and table properties are stored flat: one value per dotted path, such as ``expire_snapshots.options.max_age``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.daily_window import DailyWindow, check_zone, parse_minute
from airflow_snowpack.maintenance.options import action_class, policy_readers, usable_actions
from airflow_snowpack.maintenance.policies.model import ValueOrigin
from airflow_snowpack.maintenance.readers import described, duration, flag, literal, schema_of, text, whole_number
from airflow_snowpack.sizes import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_snowpack.maintenance.readers import Reader

WINDOW = re.compile(r"([0-9][0-9]:[0-9][0-9]) *- *([0-9][0-9]:[0-9][0-9])(?: +([A-Za-z0-9_+/-]+))?")
WINDOW_SCHEMA = {
    "type": "string",
    "pattern": r"^[0-2][0-9]:[0-5][0-9] *- *[0-2][0-9]:[0-5][0-9]( +[A-Za-z0-9_+/-]+)?$",
}
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
LAST_YEAR = 9999
"""Times in this year may have no equivalent in another time zone."""
MOMENT_SCHEMA = r"^(?!9999)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$"


@described(
    {"type": "string", "pattern": MOMENT_SCHEMA, "description": "A moment with an offset, such as 2026-12-27T00:00:00+01:00."}
)
def moment(value: object) -> datetime:
    """A time with its offset; as text, in ISO 8601."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f'must be a moment such as "2026-12-27T00:00:00Z", not {value!r:.60}') from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError(f'must be a moment with an offset such as "2026-12-27T00:00:00Z", not {str(value)[:60]!r}')
    if value.year >= LAST_YEAR:
        raise ValueError(f"must be before the year {LAST_YEAR}, not {str(value)!r}; 'skip' leaves a table out for good")
    return value


@described({"anyOf": [WINDOW_SCHEMA, {"type": "array", "items": WINDOW_SCHEMA}]})
def windows(value: object) -> tuple[DailyWindow, ...]:
    """Daily windows: one, a list, or text with commas, each as ``"08:00-20:00 Europe/Berlin"``."""
    if isinstance(value, str):
        value = value.split(",")
    given = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(each if isinstance(each, DailyWindow) else _window(each) for each in given)


def _window(value: object) -> DailyWindow:
    match = WINDOW.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'must be a daily window such as "08:00-20:00 Europe/Berlin", not {value!r:.60}')
    try:
        window = DailyWindow(parse_minute(match[1]), parse_minute(match[2]), check_zone(match[3] or "UTC"))
    except ValueError as error:
        raise ValueError(f"has the window {value!r:.60}, and {error}") from None
    if window.start == window.end:
        raise ValueError(f"has the window {value!r:.60}, whose end must differ from its start")
    return window


@described({"type": ["integer", "string"], "minimum": 1, "description": 'A number of bytes, or text such as "10 GiB".'})
def size(value: object) -> int:
    """A number of bytes; as text, with a unit."""
    try:
        return parse_bytes(int(value) if isinstance(value, str) and value.isascii() and value.strip().isdecimal() else value)
    except ValueError as error:
        raise ValueError(f"{str(error).removeprefix('it ')}, not {value!r:.60}") from None


period = duration(at_least=timedelta(minutes=1))


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a rule.

    :param read: converts what was written to the value.
    :param nullable: whether ``null`` is allowed, which removes what less specific rules set.
    :param default: for the schema; ``None`` where the action or the table decides.
    """

    read: Reader
    doc: str = ""
    nullable: bool = False
    default: int | float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping in a rule, and its allowed keys."""

    keys: Mapping[str, Key | Section]
    doc: str

    def leaves(self, path: str) -> Iterator[tuple[str, Key]]:
        """Yield each key with its dotted path."""
        for name, key in self.keys.items():
            below = f"{path}.{name}"
            yield from key.leaves(below) if isinstance(key, Section) else [(below, key)]


TABLE_KEYS = {
    "enabled": Key(flag, "Whether the tables are maintained. A table property or a more specific rule can change it."),
    "skip": Key(text, "Why the tables are never maintained. No other rule and no table property can change it."),
    "frozen_until": Key(moment, "No maintenance starts before this moment.", nullable=True),
    "quiet": Key(windows, "Daily windows in which no maintenance starts; they may go past midnight."),
    "max_rewrite_bytes": Key(size, "One plan rewrites at most so many bytes of a table."),
    "owner": Key(text, "Who receives the notifications about the tables."),
}
EACH_ACTION = {
    "cadence": Key(period, "The action runs at most this often.", nullable=True),
    "deadline": Key(period, "The action runs at least this often while it has something to do.", nullable=True),
}
"""Keys of a rule for all actions that do not set them."""
ACTION_KEYS = {
    "enabled": Key(flag, "Whether plans may run the action."),
    **EACH_ACTION,
    "where": Key(literal(text), "A Spark predicate that limits the action, such as \"month >= '2026-01'\".", nullable=True),
}


threshold = whole_number(at_least=1, at_most=2**63 - 1)


def section_of(action: str) -> Section:
    """Return what a rule may set for an action.

    :raises UnusableAction: its entry point cannot be loaded.
    """
    shape, readers = action_class(action), policy_readers(action)
    keys: dict[str, Key | Section] = {name: key for name, key in ACTION_KEYS.items() if name != "where" or name in readers}
    numbers = {name: Key(threshold, each.doc, default=each.default) for name, each in shape.thresholds.items()}
    options = {name: Key(read, nullable=True) for name, read in readers.items() if name != "where"}
    keys["thresholds"] = Section(numbers, "The action is needed when one of these is reached.")
    keys["options"] = Section(options, "The options of the action (docs/actions.md).")
    return Section(keys, str(shape.__doc__).strip().partition("\n")[0])


DEFAULT_CADENCE = timedelta(hours=6)
STOPS_MAINTENANCE = frozenset({"enabled", "skip", "frozen_until", "quiet"})
"""Keys that can exclude a table from maintenance."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value that a rule or table property sets; rules override those of Iceberg's table properties."""

    value: Any
    origin: ValueOrigin
    of_iceberg: bool = False


def nearest(word: str, known: Iterable[str], similarity: float = 0.7) -> str | None:
    """Return the known word with the most similar spelling; ``None`` if none is similar enough."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=similarity)), None)


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Return the sentence for an unknown word."""
    names = [str(each) for each in known]
    near = nearest(word, names)
    hint = f"did you mean {near!r}?" if near else f"use {', '.join(names)}."
    return f"{what} {word[:80]!r} is not known; {hint}"


def policies_schema() -> dict[str, Any]:
    """Return the JSON Schema, with the actions of this installation, for completion and validation in editors.

    A rule accepts what the schema allows, apart from what a schema cannot express, such as the names of time zones.
    """
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
