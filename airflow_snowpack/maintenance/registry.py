"""The actions of maintenance by name: the package's own, and those that other distributions add by an entry point.

    action_class("expire_snapshots")        # ExpireSnapshots
    action_names()                          # the package's own in their default order, then the others by name

An entry point of the group ``airflow_snowpack.actions`` has the name of its action and names a subclass of
:class:`~airflow_snowpack.maintenance.options.ActionOptions`. DAG files import the names of actions, so a class is loaded when it
is first used, and entry points are read when a name is not one of the package's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airflow_snowpack.entry_points import entry_points
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.errors import UnknownAction, UnusableAction

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.options import ActionOptions

GROUP = "airflow_snowpack.actions"
OWN = {
    Action.REWRITE_DATA_FILES: "RewriteDataFiles",
    Action.REWRITE_POSITION_DELETE_FILES: "RewritePositionDeleteFiles",
    Action.REWRITE_MANIFESTS: "RewriteManifests",
    Action.EXPIRE_SNAPSHOTS: "ExpireSnapshots",
    Action.REMOVE_ORPHAN_FILES: "RemoveOrphanFiles",
}


def action_names() -> tuple[str, ...]:
    """Return the names of all actions, in the order in which they run by default."""
    return (*OWN, *sorted(entry_points(GROUP).keys() - OWN.keys()))


def is_action(name: str) -> bool:
    """Whether there is an action of this name."""
    return name in OWN or name in entry_points(GROUP)


def action_class(name: str) -> type[ActionOptions]:
    """Return the class of an action.

    :raises UnknownAction: no action has this name.
    :raises UnusableAction: its entry point cannot be loaded, or is not an action of this name.
    """
    if name in OWN:
        own: type[ActionOptions] = getattr(import_module(f"airflow_snowpack.maintenance.actions.{name}"), OWN[Action(name)])
        return own
    from airflow_snowpack.maintenance.options import ActionOptions

    point = entry_points(GROUP).get(name)
    if point is None:
        raise UnknownAction(name, action_names())
    try:
        found = point.load()
    except Exception as error:
        raise UnusableAction(name, f"{point.value} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, ActionOptions) and found.action == name):
        raise UnusableAction(name, f"{point.value} is not a subclass of ActionOptions whose action is {name!r}")
    return found
