"""Schedules in YAML files.

    schedules:
      - name: page_views_nightly
        dag_id: maintain_page_views
        trigger:
          any_of:
            - partitions_added: {table: analytics.page_views, count: 5}
            - every: 4h
        constraints:
          - time_window: {start: "22:00", end: "06:00", tz: America/New_York}
        timeout: {after: 1d, then: discard}

A file is read whole or not at all: one schedule that cannot be used is an error that names the file, the schedule and
the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.schedule import Schedule


def load_schedules(file: Path) -> list[Schedule]:
    """The schedules of one file.

    :raises InvalidSchedule: the file is no YAML, or one of its schedules cannot be used.
    """
    import yaml

    try:
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:  # ValueError: a date such as 2026-13-45 is one
        raise InvalidSchedule(file.name, str(file), f"it cannot be read: {error}") from error
    if not isinstance(said, Mapping) or set(said) != {"schedules"} or not isinstance(said["schedules"], list):
        raise InvalidSchedule(file.name, str(file), "it must have one key, `schedules`, with a list of schedules")
    return [_read(file.name, number, one) for number, one in enumerate(said["schedules"])]


def _read(file: str, number: int, said: object) -> Schedule:
    try:
        return Schedule.from_json(said)
    except InvalidSchedule as error:
        name = said.get("name") if isinstance(said, Mapping) else None
        raise error.below(f"{file}: {name or f'schedules[{number}]'}") from error
