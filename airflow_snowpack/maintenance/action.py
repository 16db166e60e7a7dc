"""The names of the maintenance actions and the order in which they run.

The order is one setting of the installation and never the request's: later actions build on earlier ones. Three orders have
been published for the system this follows, so it is data; the default is the specification's.

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
    """The actions of a request that names none; the value is the name of Iceberg's Spark procedure.

    They are not all: each module of ``maintenance/actions/`` is an action, and other distributions add some by an entry point of
    the group :data:`GROUP`. So functions take and return names.
    """

    REWRITE_DATA_FILES = "rewrite_data_files"
    REWRITE_POSITION_DELETE_FILES = "rewrite_position_delete_files"
    REWRITE_MANIFESTS = "rewrite_manifests"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    REMOVE_ORPHAN_FILES = "remove_orphan_files"


DEFAULT_ORDER: tuple[str, ...] = tuple(Action)
GROUP = "airflow_snowpack.actions"
OWN = frozenset(module.name for module in iter_modules([str(Path(__file__).with_name("actions"))]))
"""The actions of the package itself."""


def action_names() -> tuple[str, ...]:
    """Return the names of all actions, in the order in which they run by default."""
    return (*DEFAULT_ORDER, *sorted((OWN | entry_points(GROUP).keys()) - set(DEFAULT_ORDER)))


def is_action(name: str) -> bool:
    """Whether there is an action of this name."""
    return name in OWN or name in entry_points(GROUP)


def parse_actions(actions: Iterable[str]) -> tuple[str, ...]:
    """Check the names, once each.

    :raises NoActions: the list is empty.
    :raises UnknownAction: no action has one of the names.
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

    :param order: as the setting has it; actions that it does not name run last. Without one, the default order.
    :raises NoActions, UnknownAction: as :func:`parse_actions`.
    """
    requested = parse_actions(actions)
    known = dict.fromkeys((*order, *action_names()))
    return tuple(name for name in known if name in requested)


def parse_order(names: Iterable[str]) -> tuple[str, ...]:
    """Read the ``action_order`` setting.

    :raises InvalidActionOrder: it does not name each :class:`Action` exactly once, or it names an unknown one.
    """
    given = tuple(name.strip() for name in names)
    if len(set(given)) != len(given) or not all(map(is_action, given)) or not set(given).issuperset(Action):
        raise InvalidActionOrder(given, DEFAULT_ORDER)
    return given
