"""The numbers of schedules for Prometheus, read at the moment of the scrape."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from airflow_snowpack.scheduling import PendingQueue
from airflow_snowpack.scheduling.events.event_log import read_backlog
from airflow_snowpack.scheduling.schedules import Schedules
from airflow_snowpack.scheduling.sources.source_problems import read_table_lag


def schedule_metrics(schedules: Schedules) -> Iterator[Metric]:
    """Schedules, pending jobs, events and launches as they are now."""
    store = schedules.store
    now, queue, backlog = store.clock(), PendingQueue(store), read_backlog(store)
    yield _by(
        "snowpack_schedules",
        "Schedules.",
        "state",
        {"enabled" if enabled else "suspended": number for enabled, number in schedules.count().items()},
    )
    pending = {state.value: number for state, number in queue.count_by_state().items()}
    yield _by("snowpack_pending_jobs", "Runs that may come.", "state", pending)
    yield _gauge("snowpack_events_newest", "The number of the newest event; it grows with each that is recorded.", backlog.newest)
    yield _gauge("snowpack_events_unread", "Events that were not matched to schedules yet.", backlog.unread)
    behind = 0.0 if backlog.oldest is None else max((now - backlog.oldest).total_seconds(), 0.0)
    yield _gauge("snowpack_events_unread_oldest_seconds", "How long the oldest of them has been waiting.", behind)
    lag = read_table_lag(store).total_seconds()
    yield _gauge("snowpack_tables_overdue_seconds", "How long the most overdue table that schedules listen to has been due.", lag)
    waiting, oldest = queue.launches_waiting()
    waits = 0.0 if oldest is None else max((now - oldest).total_seconds(), 0.0)
    yield _gauge("snowpack_launches_waiting", "Runs that are to be started.", waiting)
    yield _gauge("snowpack_launches_oldest_seconds", "How long the one that waits longest has been waiting.", waits)


def _gauge(name: str, says: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, says, value=value)


def _by(name: str, says: str, label: str, numbers: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=[label])
    for value, number in numbers.items():
        family.add_metric([value], number)
    return family
