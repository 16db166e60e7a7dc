"""The paths of a dataset's objects, relative to the dataset's own folder (its *root*).

    _CURRENT                                                   the pointer to the current manifest
    manifests/<run_id>/1.json                                  the run's manifest; a later try to publish the run writes 2.json
    data/<run_id>/shard=00007/attempt=00-31/shard.parquet      the file of one attempt at one shard
    data/<run_id>/shard=00007/attempt=00-31/_ATTEMPT.json      its record, written last

The invariant: a folder's name ends in "/" wherever something is listed or deleted by it, as ``attempt=1`` is a prefix of
``attempt=10``. The names of runs and datasets have no "/" and do not begin with a dot, so that no path leaves the root.
"""

from __future__ import annotations

import re

from airflow_snowpack.builds.errors import InvalidBuild

CURRENT = "_CURRENT"
MANIFESTS = "manifests/"
DATA = "data/"
RECORD = "_ATTEMPT.json"

DATASET = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
MAX_NAME = 200


def check_dataset(name: str) -> str:
    """Return the name if a dataset can have it, and raise :class:`InvalidBuild` if not."""
    return _checked("dataset", name, DATASET)


def check_run(run_id: str) -> str:
    """Return the id if a run can have it, and raise :class:`InvalidBuild` if not."""
    return _checked("run_id", run_id, RUN)


def _checked(field: str, name: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(name) or len(name) > MAX_NAME:
        raise InvalidBuild(field, name, f"it must match {pattern.pattern} and have at most {MAX_NAME} characters")
    return name


def manifest_folder(run_id: str) -> str:
    """Return the folder of a run's manifests."""
    return f"{MANIFESTS}{run_id}/"


def manifest(run_id: str, attempt: int) -> str:
    """Return the path of a run's manifest.

    :param attempt: counts the attempts that had the run, so that a stale attempt never overwrites its successor's manifest.
    """
    return f"{manifest_folder(run_id)}{attempt}.json"


def run_folder(run_id: str) -> str:
    """Return the folder of all attempts of a run."""
    return f"{DATA}{run_id}/"


def shard_folder(run_id: str, shard_id: int) -> str:
    """Return the folder of all attempts at one shard."""
    return f"{run_folder(run_id)}shard={shard_id:05d}/"


def attempt_folder(run_id: str, shard_id: int, attempt: int, token: str) -> str:
    """Return the folder of one attempt.

    :param token: makes it unique within the run: Spark's ``taskAttemptId``, as Spark repeats ``attemptNumber`` after a stage
        retry; a new id without Spark.
    """
    return f"{shard_folder(run_id, shard_id)}attempt={attempt:02d}-{token}/"
