"""Prometheus counters and histograms from the counters of the store.

    for metric in counter_metrics(store): ...

The invariant: a number never falls, whichever process answers the scrape, because the store counts in the transactions that do
the work. The counters of all jobs and launches are there from the start, so that an alert on an increase sees the first one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from airflow_snowpack.jobs import counts as of_jobs
from airflow_snowpack.jobs.model import TERMINAL
from airflow_snowpack.scheduling import counts as of_schedules
from airflow_snowpack.store import Store
from airflow_snowpack.store.counters import BUCKET, INFINITE, SUM, Labels, read_counters


@dataclass(frozen=True, slots=True)
class StoreCounter:
    """A counter.

    :param known: the values of its only label that are reported before anything was counted.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    known: tuple[str, ...] = ()

    def family(self, values: Mapping[Labels, float]) -> Metric:
        family = CounterMetricFamily(f"snowpack_{self.name}", self.help, labels=self.labels)
        missing = [((self.labels[0], value),) for value in self.known]
        for labels, value in (dict.fromkeys(missing, 0.0) | dict(values)).items():
            family.add_metric([dict(labels)[name] for name in self.labels], value)
        return family


@dataclass(frozen=True, slots=True)
class StoreHistogram:
    """A histogram of seconds without labels.

    :param bounds: the upper bounds of its buckets.
    """

    name: str
    help: str
    bounds: Sequence[float]

    def family(self, values: Mapping[Labels, float], total: float) -> Metric:
        bounds = [*(f"{bound:g}" for bound in self.bounds), INFINITE]
        cumulated = accumulate(values.get(((BUCKET, bound),), 0.0) for bound in bounds)
        family = HistogramMetricFamily(f"snowpack_{self.name}", self.help)
        family.add_metric([], buckets=list(zip(bounds, cumulated, strict=True)), sum_value=total)
        return family


COUNTERS = (
    StoreCounter(of_jobs.JOBS, "Ended jobs.", ("status",), tuple(sorted(TERMINAL))),
    StoreCounter(of_jobs.ACTIONS, "Actions of ended jobs.", ("action", "outcome")),
    StoreCounter(of_jobs.BYTES_REWRITTEN, "Bytes of the files that were rewritten.", ("action",)),
    StoreCounter(of_jobs.FILES_REMOVED, "Data files, delete files and manifests that were replaced or deleted.", ("action",)),
    StoreCounter(of_jobs.SNAPSHOTS_EXPIRED, "Expired snapshots.", ("action",)),
    StoreCounter(of_schedules.EVALUATIONS, "Evaluations of pending runs, by the state that followed.", ("state",)),
)
HISTOGRAMS = (
    StoreHistogram(of_jobs.RUN_SECONDS, "Duration of the attempt that ended a job.", of_jobs.BOUNDS),
    StoreHistogram(of_jobs.WAIT_SECONDS, "Time from the submission of a job until its first claim.", of_jobs.BOUNDS),
    StoreHistogram(
        of_schedules.LAUNCH_SECONDS, "Time from the reservation of a run until Airflow has started it.", of_schedules.BOUNDS
    ),
)


def counter_metrics(store: Store) -> Iterator[Metric]:
    """Read all counters, in one statement.

    :raises StoreUnreachable: the store does not answer.
    """
    found = read_counters(store)
    for counter in COUNTERS:
        yield counter.family(found.get(counter.name, {}))
    for histogram in HISTOGRAMS:
        total = found.get(f"{histogram.name}{SUM}", {}).get((), 0.0)
        yield histogram.family(found.get(histogram.name, {}), total)
