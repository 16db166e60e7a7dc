"""Ids of jobs as people give them: whole, or the beginning that the lists show.

find_job(jobs, "3f2a91bc")
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_snowpack.cli.errors import AmbiguousJobId, UsageProblem

if TYPE_CHECKING:
    from airflow_snowpack.jobs import Job, Jobs

WHOLE = 32
SHOWN = 12  # the chance that two of a hundred thousand jobs begin alike is one in fifty thousand
LEAST = 8
LISTED = 10
HEXADECIMAL = re.compile("[0-9a-f]+")


def short_id(job_id: str) -> str:
    """The beginning that stands in tables for people."""
    return job_id[:SHOWN]


def find_job(jobs: Jobs, given: str) -> Job:
    """The job of this id, or the only one whose id begins like this.

    :raises JobNotFound: there is none.
    :raises AmbiguousJobId: there are several.
    :raises UsageProblem: it is shorter than 8 characters.
    """
    from airflow_snowpack.jobs import JobNotFound

    wanted = given.strip().lower()
    if not HEXADECIMAL.fullmatch(wanted):
        raise JobNotFound(given)
    if len(wanted) >= WHOLE:
        return jobs.get(wanted)
    if len(wanted) < LEAST:
        raise UsageProblem(
            f"{given!r} is too short to tell a job by. Give its whole id, or the first {LEAST} characters at least."
        )
    matches = jobs.ids_beginning(wanted, limit=LISTED + 1)
    if not matches:
        raise JobNotFound(given)
    if len(matches) > 1:
        raise AmbiguousJobId(given, matches[:LISTED], more=len(matches) > LISTED)
    return jobs.get(matches[0])
