"""The names of the maintenance actions and the order in which they run.

Later actions build on earlier ones, so the installation sets the order, not a request.

    >>> in_order(["expire_snapshots", "rewrite_data_files"])
    ('rewrite_data_files', 'expire_snapshots')
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from airflow_snowpack.entry_points import entry_points
from airflow_snowpack.maintenance.errors import InvalidActionOrder, NoActions, UnknownAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Action(StrEnum):
    """The default actions; each value is the name of Iceberg's Spark procedure.

    Functions take and return names, because there are more actions: each module of ``maintenance/actions/`` is one, and other
    distributions add some through entry points of the group :data:`GROUP`.
    """

    REWRITE_DATA_FILES = "rewrite_data_files"
    REWRITE_POSITION_DELETE_FILES = "rewrite_position_delete_files"
    REWRITE_MANIFESTS = "rewrite_manifests"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    REMOVE_ORPHAN_FILES = "remove_orphan_files"


DEFAULT_ORDER: tuple[str, ...] = tuple(Action)
GROUP = "airflow_snowpack.actions"
OWN = frozenset(module.name for module in iter_modules([str(Path(__file__).with_name("actions"))]))
"""The actions of this package."""


def action_names() -> tuple[str, ...]:
    """Return the names of all actions in the default order."""
    return (*DEFAULT_ORDER, *sorted((OWN | entry_points(GROUP).keys()) - set(DEFAULT_ORDER)))


def is_action(name: str) -> bool:
    """Return whether an action has this name."""
    return name in OWN or name in entry_points(GROUP)


def parse_actions(actions: Iterable[str]) -> tuple[str, ...]:
    """Return the names without duplicates.

    :raises NoActions: the list is empty.
    :raises UnknownAction: a name is not an action's.
    """
    parsed = dict.fromkeys(str(name) for name in actions)
    for name in parsed:
        if not is_action(name):
            raise UnknownAction(name, action_names())
    if not parsed:
        raise NoActions(action_names())
    return tuple(parsed)


def in_order(actions: Iterable[str], order: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the requested actions in the installation's order.

    :param order: the setting; actions that it does not name run last. Empty means the default order.
    :raises NoActions, UnknownAction: see :func:`parse_actions`.
    """
    requested = parse_actions(actions)
    known = dict.fromkeys((*order, *action_names()))
    return tuple(name for name in known if name in requested)


def parse_order(names: Iterable[str]) -> tuple[str, ...]:
    """Parse the ``action_order`` setting.

    :raises InvalidActionOrder: a name is unknown or repeated, or an :class:`Action` is missing.
    """
    given = tuple(name.strip() for name in names)
    if len(set(given)) != len(given) or not all(map(is_action, given)) or not set(given).issuperset(Action):
        raise InvalidActionOrder(given, DEFAULT_ORDER)
    return given
