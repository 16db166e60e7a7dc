"""The options that both actions have which delete by a list."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from airflow_snowpack.maintenance.options import refused

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.options import ActionOptions

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
