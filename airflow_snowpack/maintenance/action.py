"""The five maintenance actions and the order in which they run.

The order is one setting of the installation and never the request's: later actions build on earlier ones. Three orders have
been published for the system this follows, so it is data; the default is the specification's.

    >>> in_order(["expire_snapshots", "rewrite_data_files"])
    (<Action.REWRITE_DATA_FILES: 'rewrite_data_files'>, <Action.EXPIRE_SNAPSHOTS: 'expire_snapshots'>)
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_snowpack.maintenance.errors import InvalidActionOrder, NoActions, UnknownAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Action(StrEnum):
    """One thing that maintenance does to a table; the value is the name of Iceberg's Spark procedure."""

    REWRITE_DATA_FILES = "rewrite_data_files"
    REWRITE_POSITION_DELETE_FILES = "rewrite_position_delete_files"
    REWRITE_MANIFESTS = "rewrite_manifests"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    REMOVE_ORPHAN_FILES = "remove_orphan_files"


DEFAULT_ORDER: tuple[Action, ...] = tuple(Action)


def parse_actions(actions: Iterable[str]) -> tuple[Action, ...]:
    """Check the names, once each.

    :raises NoActions: the list is empty.
    :raises UnknownAction: a name is not one of :class:`Action`.
    """
    parsed: dict[Action, None] = {}
    for name in actions:
        try:
            parsed[Action(name)] = None
        except ValueError:
            raise UnknownAction(str(name), tuple(Action)) from None
    if not parsed:
        raise NoActions(tuple(Action))
    return tuple(parsed)


def in_order(actions: Iterable[str], order: Sequence[Action] = DEFAULT_ORDER) -> tuple[Action, ...]:
    """Return the requested actions in the installation's order.

    :raises NoActions, UnknownAction: as :func:`parse_actions`.
    """
    asked = set(parse_actions(actions))
    return tuple(action for action in order if action in asked)


def parse_order(names: Iterable[str]) -> tuple[Action, ...]:
    """Read the ``action_order`` setting.

    :raises InvalidActionOrder: it does not name each of the five actions exactly once.
    """
    given = [name.strip() for name in names]
    if sorted(given) != sorted(Action):
        raise InvalidActionOrder(tuple(given), tuple(Action))
    return tuple(Action(name) for name in given)
