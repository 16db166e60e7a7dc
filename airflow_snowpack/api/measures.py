"""What Prometheus reads: the state of the store at the moment of the scrape, and how this process answers.

    measures = Measures()
    measures.count("GET", "/jobs", 200, 0.004)
    measures.text(services)

The invariant: numbers of the store are read anew at each scrape and never kept, so every process that shares a store tells the
same. Each app has a registry of its own.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from airflow_snowpack.api.roles import read_roles
from airflow_snowpack.api.schedule_measures import schedule_metrics
from airflow_snowpack.api.services import Services
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.store.size import read_size

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
RECENT, RECENT_AT_MOST = timedelta(hours=1), 10_000
"""A scrape counts no more finished jobs than these, however many there are."""


class Measures:
    """Counts requests, and writes all that is known as Prometheus's text."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "code")
        self._requests = Counter("snowpack_http_requests", "Requests that were answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            "snowpack_http_request_seconds", "How long an answer took.", labels, buckets=BUCKETS, registry=self.registry
        )

    def count(self, method: str, route: str, code: int, seconds: float) -> None:
        """Count a request."""
        labels = (method, route, str(code))
        self._requests.labels(*labels).inc()
        self._seconds.labels(*labels).observe(seconds)

    def text(self, services: Services) -> bytes:
        """Everything, with the store as it is now.

        :raises StoreUnreachable: the store does not answer.
        """
        once = CollectorRegistry(auto_describe=False)
        once.register(_Read(services))
        return generate_latest(once) + generate_latest(self.registry)


class _Read(Collector):
    """The store's numbers, read when they are asked for."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self) -> list[Metric]:
        return []  # not to be read at registration

    def collect(self) -> Iterator[Metric]:
        yield from self._queue()
        yield from self._jobs()
        yield from self._inventory()
        yield from self._size()
        yield from self._roles()
        yield from schedule_metrics(self._services.schedules())

    def _queue(self) -> Iterator[Metric]:
        jobs = self._services.jobs
        queue, now = jobs.queue(), jobs.store.clock()
        oldest = 0.0 if queue.oldest is None else max((now - queue.oldest).total_seconds(), 0.0)
        yield _gauge("snowpack_queue_depth", "Jobs that a worker could claim now.", queue.depth)
        yield _gauge("snowpack_queue_oldest_seconds", "How long the one that waits longest has been waiting.", oldest)
        yield _gauge("snowpack_queue_delayed", "Jobs that wait out a back-off.", queue.delayed)
        yield _gauge("snowpack_jobs_claimed", "Jobs that a worker has.", queue.running)
        yield _gauge("snowpack_drain_mode", "1 while submissions are refused.", int(jobs.drain().on))
        yield _gauge("snowpack_table_locks", "Locks on tables.", len(jobs.locks.list()))

    def _jobs(self) -> Iterator[Metric]:
        jobs = self._services.jobs
        yield _by_status("snowpack_jobs", "Jobs that are pending, and that are running.", jobs.count_open())
        recent = jobs.count_recent(RECENT, at_most=RECENT_AT_MOST)
        yield _by_status("snowpack_jobs_recent", "Jobs submitted within the last hour, of the 10,000 newest.", recent)

    def _inventory(self) -> Iterator[Metric]:
        state, now = self._services.inventory.state(), self._services.jobs.store.clock()
        yield _gauge("snowpack_inventory_tables", "Tables that the list of tables holds.", state.tables)
        if state.refreshed_at is not None:
            age = max((now - state.refreshed_at).total_seconds(), 0.0)
            yield _gauge("snowpack_inventory_age_seconds", "How long ago the catalog was listed.", age)
        yield _gauge("snowpack_inventory_failing", "1 when the last look at the catalog failed.", int(state.problem is not None))

    def _roles(self) -> Iterator[Metric]:
        instances = GaugeMetricFamily("snowpack_role_instances", "Background processes that run.", labels=["role"])
        missing = GaugeMetricFamily("snowpack_role_missing", "1 when a role has work and no process runs.", labels=["role"])
        seen = GaugeMetricFamily(
            "snowpack_role_seen_seconds", "How long ago a process of the role was last seen.", labels=["role"]
        )
        for report in read_roles(self._services.jobs.store):
            role = [report.role.value]
            instances.add_metric(role, len(report.running))
            missing.add_metric(role, int(report.is_missing))
            if report.last is not None:
                seen.add_metric(role, max((report.now - report.last.seen_at).total_seconds(), 0.0))
        yield from (instances, missing, seen)

    def _size(self) -> Iterator[Metric]:
        size = read_size(self._services.jobs.store)
        rows = GaugeMetricFamily("snowpack_store_rows", "Rows of each table of the store, estimated.", labels=["table"])
        for table, number in size.rows.items():
            rows.add_metric([table], number)
        yield rows
        yield _gauge("snowpack_store_bytes", "Size of the store with its indexes, estimated.", size.bytes)


def _by_status(name: str, says: str, numbers: Mapping[JobStatus, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=["status"])
    for status, number in numbers.items():
        family.add_metric([status.value], number)
    return family


def _gauge(name: str, says: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, says, value=value)
