"""Values of arguments: durations, times, JSON objects, ids of jobs and keys of images."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.cli.errors import AmbiguousId, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_snowpack.jobs import Job, Jobs
    from airflow_snowpack.maintenance.fleet import Pass
    from airflow_snowpack.maintenance.fleet.passes import FleetPasses
    from airflow_snowpack.maintenance.removals.model import Removal
    from airflow_snowpack.maintenance.removals.records import Removals
    from airflow_snowpack.runners.images import ImageRecord, ImageRecords

ID_LENGTH = 32
KEY_LENGTH = 64
SHORTEST_ID = 8
MATCHES_SHOWN = 10
HEXADECIMAL = re.compile("[0-9a-f]+")


def read_period(option: str, text: str) -> timedelta:
    """Return a duration such as ``30s`` or ``2h``.

    :raises UsageProblem: the text is not a duration.
    """
    from airflow_snowpack.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as problem:
        raise UsageProblem(f"{option} {problem}.") from problem


def read_poll(text: str) -> timedelta:
    """Return the value of ``--poll``, a pause between two reads.

    :raises UsageProblem: the text is not a duration, or zero.
    """
    from airflow_snowpack.worker.process import check_poll

    try:
        return check_poll(read_period("--poll", text))
    except ValueError as problem:
        raise UsageProblem(f"--poll {problem}.") from None


def read_time(option: str, text: str | None, now: datetime) -> datetime | None:
    """Return a time in ISO 8601 (UTC unless it has an offset), or a duration before now.

    :raises UsageProblem: the text is neither.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - read_period(option, text)
        except (UsageProblem, OverflowError):
            raise UsageProblem(
                f"{option} {text[:60]!r} is neither a time nor a duration. "
                "Pass a time such as 2026-11-21T14:00 (UTC), or 2h for two hours ago."
            ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def read_object(option: str, text: str | None, example: str) -> dict[str, Any]:
    """Return a JSON object; ``{}`` without a text.

    :param example: such an object.
    :raises UsageProblem: the text is not one.
    """
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageProblem(f"{option} {text[:80]!r} is not valid JSON: {error}. Pass an object such as '{example}'.") from error
    if not isinstance(value, dict):
        raise UsageProblem(f"{option} {text[:80]!r} is not a JSON object. Pass one such as '{example}'.")
    return value


def find_job(jobs: Jobs, given: str) -> Job:
    """Return the job of an id, or the only job whose id begins with the text.

    :raises JobNotFound: there is no such job.
    :raises AmbiguousId: there are several.
    :raises UsageProblem: the text has less than 8 characters.
    """
    from airflow_snowpack.jobs import JobNotFound

    def beginning(text: str) -> Sequence[str]:
        return jobs.ids_beginning(text, limit=MATCHES_SHOWN + 1)

    job_id = _whole_id(given, beginning, ID_LENGTH, "a job id")
    if job_id is None:
        raise JobNotFound(given)
    return jobs.get(job_id)


def find_image(records: ImageRecords, given: str) -> ImageRecord:
    """Return the image of a key, or the only image whose key begins with the text.

    :raises ImageBuildNotFound: there is no such image.
    :raises AmbiguousId: there are several.
    :raises UsageProblem: the text has less than 8 characters.
    """
    from airflow_snowpack.runners.images import ImageBuildNotFound

    def beginning(text: str) -> Sequence[str]:
        return records.keys_beginning(text, limit=MATCHES_SHOWN + 1)

    key = _whole_id(given, beginning, KEY_LENGTH, "an image key")
    if key is None:
        raise ImageBuildNotFound(given)
    return records.get(key)


def find_removal(removals: Removals, given: str) -> Removal:
    """Return the removal of an id, or the only removal whose id begins with the text.

    :raises RemovalNotFound: there is no such removal.
    :raises AmbiguousId: there are several.
    :raises UsageProblem: the text has less than 8 characters.
    """
    from airflow_snowpack.maintenance.removals.errors import RemovalNotFound

    def beginning(text: str) -> Sequence[str]:
        return removals.ids_beginning(text, limit=MATCHES_SHOWN + 1)

    removal_id = _whole_id(given, beginning, ID_LENGTH, "a removal id")
    if removal_id is None:
        raise RemovalNotFound(given)
    return removals.get(removal_id)


def find_pass(passes: FleetPasses, given: str) -> Pass:
    """Return the pass of an id, or the only pass whose id begins with the text.

    :raises PassNotFound: there is no such pass.
    :raises AmbiguousId: there are several.
    :raises UsageProblem: the text has less than 8 characters.
    """
    from airflow_snowpack.maintenance.fleet.errors import PassNotFound

    def beginning(text: str) -> Sequence[str]:
        return passes.ids_beginning(text, limit=MATCHES_SHOWN + 1)

    pass_id = _whole_id(given, beginning, ID_LENGTH, "a pass id")
    if pass_id is None:
        raise PassNotFound(given)
    return passes.get(pass_id)


def _whole_id(given: str, beginning: Callable[[str], Sequence[str]], length: int, what: str) -> str | None:
    """Return the only id that begins with the text; ``None`` if there is none.

    :param beginning: returns the ids that begin with a text, one more than are shown.
    """
    wanted = given.strip().lower()
    if not HEXADECIMAL.fullmatch(wanted):
        return None
    if len(wanted) >= length:
        return wanted
    if len(wanted) < SHORTEST_ID:
        raise UsageProblem(f"{given!r} is too short for {what}. Pass at least its first {SHORTEST_ID} characters.")
    matches = beginning(wanted)
    if len(matches) > 1:
        raise AmbiguousId(given, f"{what.partition(' ')[2]}s", matches[:MATCHES_SHOWN], more=len(matches) > MATCHES_SHOWN)
    return matches[0] if matches else None
