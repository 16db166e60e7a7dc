"""The options that both actions have which delete by a list."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_snowpack.maintenance.options import ActionOptions, option_names, parse_options, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

Options = TypeVar("Options", bound=ActionOptions)
ORPHAN_AGE_FLOOR = timedelta(hours=24)
"""Iceberg's own: a writer that has not committed yet owns files that look like orphans."""
WITH_REMOVAL_ID = ("removal_id", "only_if_needed")


def check_removal_options(options: ActionOptions) -> None:
    """Refuse options beside ``removal_id``: a list is deleted by the options that it was planned with.

    :raises InvalidOption: there is another option.
    """
    if getattr(options, "removal_id", None) is None:
        return
    for each in fields(options):
        if each.name not in WITH_REMOVAL_ID and getattr(options, each.name) != each.default:
            raise refused(options, "removal_id", f"deletes a list by the options that it was planned with: leave {each.name} out")


def planned_with(options: Options, settings: Mapping[str, Any]) -> Options:
    """Return the options that a list was planned with.

    :param options: of the action that deletes the list.
    :param settings: of the removal.
    """
    parsed = parse_options(options.action, {name: settings.get(name) for name in option_names(options.action)})
    assert isinstance(parsed, type(options))
    return parsed
