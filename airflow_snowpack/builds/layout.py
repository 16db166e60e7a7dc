"""The paths of a dataset's objects, relative to its folder (the *root*).

    _CURRENT                                                   the pointer to the current manifest
    manifests/<run_id>/1.json                                  the run's manifest; a later try to publish the run writes 2.json
    data/<run_id>/shard=00007/attempt=00-31/shard.parquet      the file of one attempt at one shard
    data/<run_id>/shard=00007/attempt=00-31/_ATTEMPT.json      its record, written last

Invariants: wherever a folder is listed or deleted its name ends in "/", because ``attempt=1`` is a prefix of ``attempt=10``.
Names of runs and datasets contain no "/" and do not begin with a dot, so no path leaves the root.
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
    """Return a valid dataset name unchanged, or raise :class:`InvalidBuild`."""
    return _check("dataset", name, DATASET)


def check_run(run_id: str) -> str:
    """Return a valid run id unchanged, or raise :class:`InvalidBuild`."""
    return _check("run_id", run_id, RUN)


def _check(field: str, name: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(name) or len(name) > MAX_NAME:
        raise InvalidBuild(field, name, f"it must match {pattern.pattern} and have at most {MAX_NAME} characters")
    return name


def manifest_folder(run_id: str) -> str:
    return f"{MANIFESTS}{run_id}/"


def manifest(run_id: str, attempt: int) -> str:
    """Return the path of the manifest that this attempt of the run writes; a stale attempt never overwrites its successor's."""
    return f"{manifest_folder(run_id)}{attempt}.json"


def run_folder(run_id: str) -> str:
    return f"{DATA}{run_id}/"


def shard_folder(run_id: str, shard_id: int) -> str:
    return f"{run_folder(run_id)}shard={shard_id:05d}/"


def attempt_folder(run_id: str, shard_id: int, attempt: int, token: str) -> str:
    """Return the folder of one attempt; ``token`` is Spark's ``taskAttemptId`` (stage retries repeat ``attempt``) or a new id."""
    return f"{shard_folder(run_id, shard_id)}attempt={attempt:02d}-{token}/"
