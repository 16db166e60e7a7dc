"""The options of the actions that delete by a list."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_snowpack.maintenance.options import ActionOptions, option_names, parse_options, refused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Options = TypeVar("Options", bound=ActionOptions)
ORPHAN_AGE_FLOOR = timedelta(hours=24)
"""Iceberg's minimum: files of uncommitted writers look like orphans."""
ALL = "all"
"""Instead of a removal's id: everything of the table that is in quarantine."""
WITH_REMOVAL_ID = ("removal_id", "only_if_needed", "spark_conf")
WITH_RESTORE = ("restore", "restore_files", "only_if_needed", "spark_conf")


def check_removal_options(options: ActionOptions) -> None:
    """Refuse other options with ``removal_id`` or ``restore``: a list is deleted with the options that planned it.

    :raises InvalidOption: there is another option.
    """
    if getattr(options, "restore", None) is not None:
        _refuse_beside(options, "restore", WITH_RESTORE, "restores files and removes none")
    elif getattr(options, "removal_id", None) is not None:
        _refuse_beside(options, "removal_id", WITH_REMOVAL_ID, "deletes a list by the options that it was planned with")


def _refuse_beside(options: ActionOptions, name: str, fitting: Collection[str], does: str) -> None:
    for each in fields(options):
        if each.name not in fitting and getattr(options, each.name) != each.default:
            raise refused(options, name, f"{does}: leave {each.name} out")


def planned_with(options: Options, settings: Mapping[str, Any]) -> Options:
    """Return the options that a list was planned with, from the settings of its removal."""
    parsed = parse_options(options.action, {name: settings.get(name) for name in option_names(options.action)})
    assert isinstance(parsed, type(options))
    return parsed
