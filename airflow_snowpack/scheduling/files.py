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
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidSchedule(file.name, str(file), f"it cannot be read: {error}") from error
    return parse_schedules(text, file.name)


def parse_schedules(text: str, source: str, *, one_alone: bool = False) -> list[Schedule]:
    """The schedules of a text in YAML, of which JSON is a part.

    :param source: what to call the text in an error.
    :param one_alone: take the fields of one schedule as well, without the key ``schedules``.
    :raises InvalidSchedule: it is no YAML, or one of its schedules cannot be used.
    """
    import yaml

    try:
        said = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:  # ValueError: a date such as 2026-13-45 is one
        raise InvalidSchedule(source, text[:80], f"it cannot be read: {error}") from error
    if one_alone and isinstance(said, Mapping) and "schedules" not in said:
        said = {"schedules": [said]}
    if not isinstance(said, Mapping) or set(said) != {"schedules"} or not isinstance(said["schedules"], list):
        raise InvalidSchedule(source, text[:80], "it must have one key, `schedules`, with a list of schedules")
    return [_read(source, number, one) for number, one in enumerate(said["schedules"])]


def _read(file: str, number: int, said: object) -> Schedule:
    try:
        return Schedule.from_json(said)
    except InvalidSchedule as error:
        name = said.get("name") if isinstance(said, Mapping) else None
        raise error.below(f"{file}: {name or f'schedules[{number}]'}") from error
