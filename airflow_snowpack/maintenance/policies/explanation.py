"""Explain a table's policy: every value, and where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.durations import format_duration
from airflow_snowpack.humanize import duration, size
from airflow_snowpack.maintenance.options import defaults

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.policies.model import ActionPolicy, TablePolicy, ValueOrigin


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """One value.

    :param path: dotted, such as ``expire_snapshots.options.max_age``.
    :param value: as JSON.
    :param text: for people.
    """

    path: str
    value: Any
    text: str
    origin: ValueOrigin

    @property
    def is_default(self) -> bool:
        """Whether nothing sets it."""
        return self.origin.source == "default"


def values_of(policy: TablePolicy) -> list[PolicyValue]:
    """Return all values of a policy: the table's, then each action's."""
    of_actions = (each for action in policy.actions.values() for each in _of_action(policy, action))
    return [
        PolicyValue(path, _plain(value), _text(path, value), policy.origin(path))
        for path, value in (*_of_table(policy), *of_actions)
    ]


def _of_table(policy: TablePolicy) -> Iterator[tuple[str, Any]]:
    yield "skip", policy.skip
    yield "frozen_until", policy.frozen_until
    yield "quiet", policy.quiet
    yield "max_rewrite_bytes", policy.max_rewrite_bytes
    yield "owner", policy.owner


def _of_action(table: TablePolicy, policy: ActionPolicy) -> Iterator[tuple[str, Any]]:
    name = str(policy.action)
    yield f"{name}.enabled", policy.enabled
    yield f"{name}.cadence", policy.cadence
    yield f"{name}.deadline", policy.deadline
    options = defaults(name) | policy.options.to_json()
    if "where" in options:
        yield f"{name}.where", options.pop("where")
    for threshold, number in policy.thresholds.items():
        yield f"{name}.thresholds.{threshold}", number
    for option, value in options.items():
        exact = getattr(policy.options, option)
        yield f"{name}.options.{option}", exact if isinstance(exact, timedelta) else value
    yield from ((path, value) for path, value in table.of_table.items() if path.startswith(f"{name}."))


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return format_duration(value)
        case datetime():
            return value.isoformat()
        case tuple():
            return [str(each) for each in value]
    return value


def _text(path: str, value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case timedelta():
            return duration(value)
        case datetime():
            return value.isoformat(sep=" ")
        case tuple() | list():
            return ", ".join(str(each) for each in value) or "none"
        case int() if path.endswith("_bytes"):
            return size(value)
    return str(value)
