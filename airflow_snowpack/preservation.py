"""Whether the interim tables of a run are kept when no task needs them; schedules, runs and tasks use the same values.

    >>> parse_preservation("FULL", "preservation")
    <Preservation.FULL: 'FULL'>
    >>> resolve_preservation(None, {"snowpack_run": {"preservation": "FULL"}}, {})
    <Preservation.FULL: 'FULL'>

The first level with a value decides: the task's own argument, the conf of the DAG run (as requested for the run, or else as its
registered run declares), the environment variable ``SNOWPACK_DEFAULT_PRESERVATION_MODE``, and ``NONE``. The invariant: an invalid
value on a level that is read is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from airflow_snowpack.errors import Kind, SnowpackError

RUN_KEY = "snowpack_run"
"""The key in a DAG run's conf with the name of its registered run and its preservation."""
DEFAULT_VARIABLE = "SNOWPACK_DEFAULT_PRESERVATION_MODE"


class Preservation(StrEnum):
    """What happens to the interim tables of a run."""

    NONE = "NONE"
    """A table is dropped when no task needs it."""

    FULL = "FULL"
    """A table stays until its time to live elapses, or until it is dropped by hand."""


class InvalidPreservation(SnowpackError, kind=Kind.INVALID):
    """A value that is not a preservation.

    :ivar where: the argument, variable or field.
    """

    def __init__(self, where: str, value: object) -> None:
        self.where = where
        self.value = value
        super().__init__(
            f"{where} = {value!r:.200} is not valid: it must be {' or '.join(Preservation)}, or not be set at all, so that the "
            "next level decides."
        )


def parse_preservation(value: object, where: str) -> Preservation | None:
    """Parse a preservation, in any case; ``None`` stays ``None``.

    :param where: where the value comes from, for the error message.
    :raises InvalidPreservation: it is another value.
    """
    if value is None:
        return None
    if isinstance(value, str) and value.upper() in tuple(Preservation):
        return Preservation(value.upper())
    raise InvalidPreservation(where, value)


def resolve_preservation(
    explicit: Preservation | str | None, conf: Mapping[str, Any] | None, environ: Mapping[str, str]
) -> Preservation:
    """Return the preservation of a table, from the first level that has a value.

    :param explicit: the argument of the decorator or operator; ``None`` if it is not set.
    :param conf: the conf of the DAG run.
    :param environ: the environment of the process that runs the task.
    :raises InvalidPreservation: the first level that has a value has an invalid one; the message names the level.
    """
    run = (conf or {}).get(RUN_KEY)
    if explicit is None and run is not None and not isinstance(run, Mapping):
        raise InvalidPreservation(f"dag_run.conf[{RUN_KEY!r}]", run)
    # An empty variable counts as not set: compose files and charts set variables like that.
    return (
        parse_preservation(explicit, "preservation")
        or parse_preservation((run or {}).get("preservation"), f"dag_run.conf[{RUN_KEY!r}]['preservation']")
        or parse_preservation(environ.get(DEFAULT_VARIABLE) or None, DEFAULT_VARIABLE)
        or Preservation.NONE
    )
