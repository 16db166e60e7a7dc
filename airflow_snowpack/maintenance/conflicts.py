"""Whether a failure is a lost race with another writer.

A rewrite reads files, writes better ones and then asks the catalog to replace the former by the latter. If a writer has removed
one of them meanwhile, the commit is refused. That is expected and no fault: the table is as the writer left it, and a new try
works with the files that are there now.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_snowpack.spark import SparkFailed

COMMIT_FAILED = "org.apache.iceberg.exceptions.CommitFailedException"
VALIDATION = "org.apache.iceberg.exceptions.ValidationException"

# A ValidationException also reports a missing column; another commit causes only these.
LOST_RACE = re.compile(
    r"Missing required files to delete"
    r"|Cannot commit, (?:missing data files|found new)"
    r"|Found (?:new )?conflicting"
    r"|Manifest is missing"
    r"|Cannot determine history between"
)
# Iceberg's own wrapping of both, for a rewrite without partial progress; a Spark Connect client sees only text.
WRAPPED = "Cannot commit rewrite because of a ValidationException or CommitFailedException"
# How the procedures refuse their arguments. A predicate with functions that choose no files passes the check at submit.
REFUSED = re.compile(
    r"Cannot (?:parse predicates in where option|translate Spark expression|convert Spark filter)"
    r"|Cannot find (?:field|column) '"
    r"|is unsorted and no sort order is provided"
)
FAILED_COMMITS = re.compile(r"is true but (?P<count>\d+) rewrite commits failed")


def is_conflict(error: SparkFailed) -> bool:
    """Whether another writer's commit made this one fail."""
    if WRAPPED in str(error):
        return True
    return any(
        cause.class_name == COMMIT_FAILED or (cause.class_name == VALIDATION and LOST_RACE.search(cause.message))
        for cause in error.causes
    )


def failed_commits(error: SparkFailed) -> int | None:
    """Return how many commits of partial progress failed, if the failure reports that."""
    match = FAILED_COMMITS.search(str(error))
    return int(match["count"]) if match else None


def is_refused(error: SparkFailed) -> bool:
    """Whether a procedure refused its arguments: the same call would be refused again."""
    return REFUSED.search(str(error)) is not None
