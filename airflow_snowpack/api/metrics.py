"""Prometheus metrics: the state of the store at the time of the scrape, and the requests that this process answered.

    metrics = Metrics()
    metrics.count("GET", "/jobs", 200, 0.004)
    metrics.text(services)

The invariant: numbers of the store are read at each scrape and not cached, so that every process that shares a store reports the
same. Each app has its own registry.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from airflow_snowpack.api.counter_metrics import counter_metrics
from airflow_snowpack.api.roles import read_roles
from airflow_snowpack.api.services import Services
from airflow_snowpack.inventory import TableScores
from airflow_snowpack.notifications import Notifications
from airflow_snowpack.scheduling import PendingQueue
from airflow_snowpack.scheduling.events.event_log import read_backlog
from airflow_snowpack.scheduling.schedules import Schedules
from airflow_snowpack.scheduling.sources.source import read_table_lag, read_unreadable
from airflow_snowpack.store.size import read_size
from airflow_snowpack.wire.shape import seconds_since

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Count requests, and write all metrics in Prometheus's text format."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "code")
        self._requests = Counter("snowpack_http_requests", "Answered requests.", labels, registry=self.registry)
        self._seconds = Histogram(
            "snowpack_http_request_seconds", "Duration of a request.", labels, buckets=BUCKETS, registry=self.registry
        )

    def count(self, method: str, route: str, code: int, seconds: float) -> None:
        labels = (method, route, str(code))
        self._requests.labels(*labels).inc()
        self._seconds.labels(*labels).observe(seconds)

    def text(self, services: Services) -> bytes:
        """Return all metrics, those of the store as it is now.

        :raises StoreUnreachable: the store does not answer.
        """
        once = CollectorRegistry(auto_describe=False)
        once.register(_StoreMetrics(services))
        return generate_latest(once) + generate_latest(self.registry)


class _StoreMetrics(Collector):
    """Reads the store's metrics during a scrape."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        yield from self._queue()
        yield from self._jobs()
        yield from self._inventory()
        yield from self._health()
        yield from self._last_pass()
        yield from self._size()
        yield from self._roles()
        yield from self._notifications()
        yield from _schedule_metrics(self._services.schedules())
        yield from counter_metrics(self._services.jobs.store)

    def _queue(self) -> Iterator[Metric]:
        jobs = self._services.jobs
        queue, now = jobs.queue(), jobs.store.clock()
        oldest = seconds_since(queue.oldest, now) or 0
        yield _gauge("snowpack_queue_depth", "Jobs that a worker could claim now.", queue.depth)
        yield _gauge("snowpack_queue_held", "Jobs that a worker could claim if drain mode were off.", queue.held)
        yield _gauge("snowpack_queue_oldest_seconds", "Waiting time of the oldest job in the queue.", oldest)
        yield _gauge("snowpack_queue_delayed", "Jobs whose back-off has not elapsed.", queue.delayed)
        yield _gauge("snowpack_jobs_claimed", "Jobs that a worker has claimed.", queue.running)
        yield _gauge("snowpack_drain_mode", "1 while submissions are refused and no job is claimed.", int(jobs.drain().on))
        yield _gauge("snowpack_table_locks", "Locks on tables.", len(jobs.locks.list()))

    def _jobs(self) -> Iterator[Metric]:
        jobs = self._services.jobs
        yield _by_label("snowpack_jobs", "Pending and running jobs.", "status", jobs.count_open())

    def _inventory(self) -> Iterator[Metric]:
        state, now = self._services.inventory.state(), self._services.jobs.store.clock()
        yield _gauge("snowpack_inventory_tables", "Tables in the list of tables.", state.tables)
        if (age := seconds_since(state.refreshed_at, now)) is not None:
            yield _gauge("snowpack_inventory_age_seconds", "Age of the last listing of the catalog.", age)
        yield _gauge("snowpack_inventory_failing", "1 when the last listing failed.", int(state.problem is not None))

    def _health(self) -> Iterator[Metric]:
        store = self._services.jobs.store
        counts = TableScores(store, self._services.inventory).counts()
        meaning = "Tables by the condition that their stored health shows."
        yield _by_label("snowpack_tables", meaning, "condition", counts.by_condition)
        if (age := seconds_since(counts.oldest_read_at, store.clock())) is not None:
            yield _gauge("snowpack_table_health_oldest_seconds", "Age of the oldest health that is stored of a table.", age)

    def _last_pass(self) -> Iterator[Metric]:
        for last in self._services.installation.fleet_passes.list(limit=1).items:
            counts = last.counts if last.report is None else last.report["counts"]
            yield _by_label("snowpack_pass_tables", "Tables of the last pass over the fleet, by outcome.", "outcome", counts)
            age = seconds_since(last.started_at, self._services.jobs.store.clock()) or 0
            yield _gauge("snowpack_pass_age_seconds", "Time since the last pass over the fleet was started.", age)

    def _roles(self) -> Iterator[Metric]:
        reports = {report.role.value: report for report in read_roles(self._services.jobs.store)}
        running = {role: len(report.running) for role, report in reports.items()}
        missing = {role: int(report.is_missing) for role, report in reports.items()}
        seen = {role: seconds_since(each.last.seen_at, each.now) or 0 for role, each in reports.items() if each.last is not None}
        yield _by_label("snowpack_role_instances", "Running instances of a background role.", "role", running)
        yield _by_label("snowpack_role_missing", "1 when a role has work and no instance runs.", "role", missing)
        yield _by_label("snowpack_role_seen_seconds", "Age of the last sign of life of a role.", "role", seen)

    def _notifications(self) -> Iterator[Metric]:
        failing = {each.receiver: each.attempts for each in Notifications(self._services.jobs.store).undelivered()}
        meaning = "Failed attempts in a row at a receiver of notifications, from the third one on."
        yield _by_label("snowpack_notification_failures", meaning, "receiver", failing)

    def _size(self) -> Iterator[Metric]:
        size = read_size(self._services.jobs.store)
        yield _by_label("snowpack_store_rows", "Rows of each table of the store, estimated.", "table", size.rows)
        yield _gauge("snowpack_store_bytes", "Size of the store with its indexes, estimated.", size.bytes)


def _schedule_metrics(schedules: Schedules) -> Iterator[Metric]:
    store = schedules.store
    now, queue, backlog = store.clock(), PendingQueue(store), read_backlog(store)
    states = {"enabled" if enabled else "suspended": number for enabled, number in schedules.count().items()}
    yield _by_label("snowpack_schedules", "Schedules.", "state", states)
    pending = {state.value: number for state, number in queue.count_by_state().items()}
    yield _by_label("snowpack_pending_jobs", "Pending runs.", "state", pending)
    yield _gauge("snowpack_events_newest", "The number of the newest event, which grows with each event.", backlog.newest)
    yield _gauge("snowpack_events_unread", "Events that are not matched to schedules yet.", backlog.unread)
    behind = seconds_since(backlog.oldest, now) or 0
    yield _gauge("snowpack_events_unread_oldest_seconds", "Waiting time of the oldest unmatched event.", behind)
    lag = read_table_lag(store).total_seconds()
    yield _gauge(
        "snowpack_tables_overdue_seconds",
        "How long the most overdue table of schedules is due, without missing and never read ones.",
        lag,
    )
    meaning = "Tables and other sources of schedules that cannot be read, or not in time."
    yield _gauge("snowpack_tables_unreadable", meaning, len(read_unreadable(store)))
    waiting, oldest = queue.launches_waiting()
    waits = seconds_since(oldest, now) or 0
    yield _gauge("snowpack_launches_waiting", "Runs that wait to be started.", waiting)
    yield _gauge("snowpack_launches_oldest_seconds", "Waiting time of the oldest of them.", waits)


def _by_label(name: str, help: str, label: str, numbers: Mapping[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help, labels=[label])
    for value, number in numbers.items():
        family.add_metric([str(value)], number)
    return family


def _gauge(name: str, help: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help, value=value)
