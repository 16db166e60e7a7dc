"""Where the objects of a dataset stand, relative to the dataset's own folder (its *root*).

    _CURRENT                                                   the pointer: which manifest is served
    manifests/<run_id>/1.json                                  the run's manifest; a later try to publish the run writes 2.json
    data/<run_id>/shard=00007/attempt=00-31/shard.parquet      what one attempt at one shard wrote
    data/<run_id>/shard=00007/attempt=00-31/_ATTEMPT.json      its record, written last

The invariant: **a folder's name ends in "/" wherever something is listed or deleted by it**, because ``attempt=1`` is also the
beginning of ``attempt=10``. A name of a run or dataset has no "/" and no dot at its start, so that no path leaves the root.
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

_SHARD = re.compile(r"shard=(\d+)")


def check_dataset(name: str) -> str:
    """The name, if it can name a dataset.

    :raises InvalidBuild: it is not ``[A-Za-z_][A-Za-z0-9_-]*`` of at most 200 characters.
    """
    if not DATASET.fullmatch(name) or len(name) > MAX_NAME:
        raise InvalidBuild("dataset", name, f"it must match {DATASET.pattern} and have at most {MAX_NAME} characters")
    return name


def check_run(run_id: str) -> str:
    """The id, if it can name a run.

    :raises InvalidBuild: it is not ``[A-Za-z0-9_][A-Za-z0-9_.+-]*`` of at most 200 characters.
    """
    if not RUN.fullmatch(run_id) or len(run_id) > MAX_NAME:
        raise InvalidBuild("run_id", run_id, f"it must match {RUN.pattern} and have at most {MAX_NAME} characters")
    return run_id


def manifest_folder(run_id: str) -> str:
    """The folder of a run's manifests."""
    return f"{MANIFESTS}{run_id}/"


def manifest(run_id: str, attempt: int) -> str:
    """The path of a run's manifest.

    :param attempt: counts the attempts that had the run, so that one that lost it never writes over its successor's manifest.
    """
    return f"{manifest_folder(run_id)}{attempt}.json"


def run_folder(run_id: str) -> str:
    """The folder of everything that a run's attempts wrote."""
    return f"{DATA}{run_id}/"


def shard_folder(run_id: str, shard_id: int) -> str:
    """The folder of all attempts at one shard."""
    return f"{run_folder(run_id)}shard={shard_id:05d}/"


def attempt_folder(run_id: str, shard_id: int, attempt: int, token: str) -> str:
    """The folder of one attempt.

    :param token: what makes it unique within the run: Spark's ``taskAttemptId``, as Spark repeats ``attemptNumber`` after a stage
        retry; a fresh id where there is no such thing.
    """
    return f"{shard_folder(run_id, shard_id)}attempt={attempt:02d}-{token}/"


def shard_of_folder(name: str) -> int | None:
    """The shard that a folder's own name (``shard=00007``) stands for; ``None`` for any other name."""
    match = _SHARD.fullmatch(name)
    return int(match[1]) if match else None
