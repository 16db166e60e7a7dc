"""Which preservation an interim table gets: the first of four levels that says one.

    resolve_preservation("NONE", conf, os.environ)   # 1. the task's own argument
    resolve_preservation(None, conf, os.environ)     # 1. what was asked for this run, 2. what its registered run says,
                                                     # 3. SNOWPACK_DEFAULT_PRESERVATION_MODE, 4. NONE

The invariant: a level that says something ends the search, ``NONE`` as well as ``FULL``, and junk on a level that is asked is
an error, never a guess. Between the two that are explicit, the task's argument comes first: whoever wrote the task knows the
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_snowpack.preservation import RUN_KEY, InvalidPreservation, Preservation, parse_preservation

__all__ = ["DEFAULT_VARIABLE", "InvalidPreservation", "Preservation", "resolve_preservation"]

DEFAULT_VARIABLE = "SNOWPACK_DEFAULT_PRESERVATION_MODE"


def resolve_preservation(
    explicit: Preservation | str | None, conf: Mapping[str, Any] | None, environ: Mapping[str, str]
) -> Preservation:
    """What the table gets.

    :param explicit: the argument of the decorator or operator; ``None`` when it says nothing.
    :param conf: the conf of the DAG run, whose ``snowpack_run`` tells what was asked for this run, or what its registered run
        says where nothing was asked.
    :param environ: the environment of the process that runs the task.
    :raises InvalidPreservation: what the first level that says something says is no preservation; the message names the level.
    """
    argument = parse_preservation(explicit, "preservation")
    if argument is not None:
        return argument
    of_run = parse_preservation(_said_of_run(conf), f"dag_run.conf[{RUN_KEY!r}]['preservation']")
    if of_run is not None:
        return of_run
    # An empty variable is one that is not set: compose files and charts hand it on like that.
    return parse_preservation(environ.get(DEFAULT_VARIABLE) or None, DEFAULT_VARIABLE) or Preservation.NONE


def _said_of_run(conf: Mapping[str, Any] | None) -> object:
    """A run has one preservation: where a person asked for another than its registration says, the conf has only that."""
    said = (conf or {}).get(RUN_KEY)
    if said is None:
        return None
    if not isinstance(said, Mapping):
        raise InvalidPreservation(f"dag_run.conf[{RUN_KEY!r}]", said)
    return said.get("preservation")
