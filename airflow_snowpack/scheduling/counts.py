"""What evaluations and launches add to the counters.

add_counts(conn, evaluated([PendingState.LAUNCH, None]))
add_counts(conn, launched(waited))
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.store.counters import Counts

EVALUATIONS, LAUNCH_SECONDS = "evaluations", "launch_seconds"
BOUNDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3_600.0)
"""The upper bounds of the buckets of the histogram, in seconds."""


def evaluated(states: Iterable[PendingState | None]) -> Counts:
    """Count one batch.

    :param states: of each pending run after its evaluation; ``None`` for one that was not evaluated.
    """
    counts = Counts()
    for state in states:
        if state is not None:
            counts.add(EVALUATIONS, state=state.value)
    return counts


def launched(waited: timedelta) -> Counts:
    """Count one run that Airflow has started, ``waited`` after its reservation."""
    counts = Counts()
    counts.observe(LAUNCH_SECONDS, waited.total_seconds(), BOUNDS)
    return counts
