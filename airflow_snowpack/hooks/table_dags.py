"""The DAGs that write to and read Iceberg tables, from Airflow's REST API, with few requests for a whole catalog.

    dags = read_dags_of_tables(settings)
    dags.writers(table).clear(timedelta(minutes=12), now)      # may a rewrite run now?
    dags.reads(table)                                          # runs per day of the DAGs that read the table

A DAG writes to a table if one of its tasks has the table's asset (:func:`~airflow_snowpack.assets.iceberg_asset`) as an outlet,
or has recently emitted an event of it, for example through an alias; tasks that maintain it do not count. A DAG reads a table if
it is scheduled on one of the table's assets, or one of its tasks names one as an inlet. The number of requests follows that of
pages of assets and DAGs; everything else has a limit. The invariant: if Airflow does not answer, the result reports the DAGs as
unknown, and no maintenance fails for that.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, pairwise
from statistics import median
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.hooks.api_client import AirflowRest, Answer, pages
from airflow_snowpack.hooks.errors import AirflowRefuses, AirflowUnreachable
from airflow_snowpack.humanize import duration
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.maintenance.writers import DagsOfTables, FailedRun, WritingDag
from airflow_snowpack.settings import Settings

log = logging.getLogger(__name__)

PAGE = 100
WINDOW = timedelta(days=7)
"""How far back runs are counted."""
MAX_RUN_PAGES = 50
"""Pages of runs in the window; if there are more, the rates are those of the shorter time that the newest runs cover."""
MAX_EVENTS = 1_000
"""How many of the newest events are read, of all assets together, or of each asset of one table."""
HORIZON = timedelta(hours=6)
"""A DAG that is due later delays no rewrite."""
MAX_TASK_LISTS = 50
"""For how many DAGs tasks are read, to distinguish writers from maintenance; all tasks of other DAGs count as writers."""
LONGEST_READ = timedelta(minutes=2)
"""The longest delay of maintenance by a slow Airflow, however many assets and DAGs it has; the DAGs are then unknown."""
FEW_DAGS = 5
"""Up to this number, DAGs are read one by one instead of in pages of all DAGs."""
LEAST_STARTS = 3
"""With fewer runs, the usual interval is unknown."""
MAINTENANCE = ("airflow_snowpack.operators.maintain", "airflow_snowpack.operators.removals")
"""The modules of tasks whose table is an outlet although they add nothing to it."""
NOT_CONFIGURED = "[snowpack] airflow_conn_id is empty"
NO_ANSWER = "Airflow's REST API did not answer as expected; see the log"

T = TypeVar("T")
TaskKey = tuple[str, str]
"""The ids of a DAG and a task."""


def read_dags_of_tables(
    settings: Settings,
    table: TableName | None = None,
    *,
    catalog_conn_id: str | None = None,
    own_run: tuple[str, str] | None = None,
    now: datetime | None = None,
) -> DagsOfTables:
    """Return which DAGs write to and read the tables of a catalog; unknown if Airflow cannot be read.

    :param table: only this table; ``None`` for all.
    :param catalog_conn_id: of the catalog; ``None`` for the installation's.
    :param own_run: the ids of the calling task's DAG and run, which does not count as a running writer.
    :param now: the current time; ``None`` to read the clock.
    """
    if settings.airflow_conn_id is None:
        return DagsOfTables(unknown=NOT_CONFIGURED)
    other = catalog_conn_id if catalog_conn_id != settings.catalog_conn_id else None
    try:
        with AirflowRest.from_connection(settings.airflow_conn_id) as rest:
            return TableDags(rest, other, own_run, only=table).read(now or datetime.now(UTC))
    except SnowpackError as problem:
        log.warning("dags_of_tables_unknown: maintenance does not wait for the DAGs that write to tables: %s", problem)
        return DagsOfTables(unknown=NO_ANSWER)


@dataclass
class _Uses:
    """What the assets of the tables name, by the address of the table."""

    writing: defaultdict[str, set[TaskKey]] = field(default_factory=lambda: defaultdict(set))
    reading: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def writers(self) -> set[str]:
        return {dag_id for tasks in self.writing.values() for dag_id, _ in tasks}

    @property
    def readers(self) -> set[str]:
        return {dag_id for dag_ids in self.reading.values() for dag_id in dag_ids}


@dataclass(frozen=True)
class _Runs:
    """The newest runs of the DAGs, which cover the time since ``since``."""

    since: datetime
    starts: Mapping[str, list[datetime]]
    durations: Mapping[str, list[timedelta]]
    failed: Mapping[str, list[FailedRun]]

    def producer(self, dag_id: str, running_since: datetime | None, next_due: datetime | None) -> WritingDag:
        """Return a DAG with the usual interval and duration of its runs."""
        starts, durations = sorted(self.starts.get(dag_id, ())), self.durations.get(dag_id)
        gaps = [later - earlier for earlier, later in pairwise(starts)] if len(starts) >= LEAST_STARTS else []
        return WritingDag(dag_id, running_since, next_due, _usual(durations or ()), _usual(gaps))


class TableDags:
    """Reads the DAGs of tables.

    :param catalog_conn_id: of the catalog, if it is not the installation's.
    :param own_run: the ids of a DAG and a run that does not count as a running writer.
    :param only: a table; ``None`` for all of the catalog.
    :param clock: seconds that pass.
    """

    def __init__(
        self,
        rest: AirflowRest,
        catalog_conn_id: str | None = None,
        own_run: tuple[str, str] | None = None,
        *,
        only: TableName | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rest = rest
        self._clock = clock
        self._ends = 0.0
        self._only = None if only is None else only.asset_uri
        self._conn_id = catalog_conn_id
        self._own_run = own_run

    def read(self, now: datetime) -> DagsOfTables:
        """Return the DAGs of all tables of the catalog.

        :raises AirflowUnreachable: Airflow does not answer, or not as its API is documented.
        """
        self._ends = self._clock() + LONGEST_READ.total_seconds()
        try:
            return self._read(now)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise AirflowRefuses(f"{self._rest.where} answered with something else than Airflow's API: {problem!r}") from problem

    def _read(self, now: datetime) -> DagsOfTables:
        uses = self._uses(now)
        if not uses.writing and not uses.reading:
            return DagsOfTables()
        runs = self._runs(sorted(uses.writers | uses.readers), now)
        active, due = self._active(uses.writers), self._due(uses.writers)
        running = {dag_id: since for dag_id, since in active.items() if since is not None}
        due |= {dag_id: now for dag_id, since in active.items() if since is None}
        concerned = {dag_id for dag_id in uses.writers if dag_id in running or due.get(dag_id, now + HORIZON) < now + HORIZON}
        maintenance = self._maintenance(sorted(concerned | (uses.writers & runs.failed.keys())))
        producers, failed = {}, {}
        for address, tasks in uses.writing.items():
            writing = sorted({dag_id for dag_id, _ in tasks - maintenance})
            dag_ids = [each for each in writing if each in concerned]
            producers[address] = tuple(runs.producer(dag_id, running.get(dag_id), due.get(dag_id)) for dag_id in dag_ids)
            failed[address] = tuple(run for dag_id in writing for run in runs.failed.get(dag_id, ()))
        return DagsOfTables(_filled(producers), _rates(uses, runs, now), failed_runs=_filled(failed))

    def _uses(self, now: datetime) -> _Uses:
        uses, addresses, ids = _Uses(), set[str](), list[int]()
        for asset in self._entries("/assets", "assets", uri_prefix_pattern=self._only or "iceberg://", order_by="id"):
            address = _table_of(asset["uri"], self._conn_id)
            if address is None or self._only not in (None, address):
                continue
            addresses.add(address)
            ids += [asset["id"]] if "events=" not in asset["uri"] else []  # a watcher's events name no task
            for task in asset["producing_tasks"]:
                uses.writing[address].add((task["dag_id"], task["task_id"]))
            for reader in (*asset["scheduled_dags"], *asset["consuming_tasks"]):
                uses.reading[address].add(reader["dag_id"])
        # Only its events show to which asset a task with an alias has written.
        for event in self._events(ids, now):
            address = _table_of(event["uri"] or "", self._conn_id)
            if address in addresses and event["source_dag_id"] is not None:
                uses.writing[address].add((event["source_dag_id"], event["source_task_id"]))
        return uses

    def _events(self, asset_ids: Sequence[int], now: datetime) -> Iterator[Any]:
        """Yield the newest events: of all assets, or of each of these assets if they belong to one table."""
        recent = {"timestamp_gte": (now - WINDOW).isoformat(), "order_by": "-timestamp"}
        of_assets = [{"asset_id": each} for each in asset_ids] if self._only else [{}] if asset_ids else []
        for wanted in of_assets:
            yield from islice(self._entries("/assets/events", "asset_events", **recent, **wanted), MAX_EVENTS)

    def _runs(self, dag_ids: list[str], now: datetime) -> _Runs:
        """Return the newest runs that started in the window."""
        since, starts, durations, failed = now - WINDOW, defaultdict(list), defaultdict(list), defaultdict(list)
        last = now
        wanted = {"dag_ids": dag_ids, "start_date_gte": since.isoformat(), "order_by": "-start_date"}
        for number, page in enumerate(self._pages_of_runs(wanted), start=1):
            for run in page:
                dag_id, last = run["dag_id"], _moment(run["start_date"]) or last
                starts[dag_id].append(last)
                ended = _moment(run["end_date"])
                if ended is not None and run["state"] == "success":
                    durations[dag_id].append(ended - last)
                if ended is not None and run["state"] == "failed":
                    failed[dag_id].append(FailedRun(dag_id, last, ended))
            if number == MAX_RUN_PAGES:
                since = last
                break
        return _Runs(since, starts, durations, failed)

    def _active(self, dag_ids: Iterable[str]) -> dict[str, datetime | None]:
        """Return the DAGs with active runs, and when the oldest one began; ``None`` if none has begun yet."""
        active: dict[str, datetime | None] = {}
        wanted = {"dag_ids": sorted(dag_ids), "states": ["running", "queued"], "order_by": "id"}
        if not wanted["dag_ids"]:
            return active
        for page in self._pages_of_runs(wanted):
            for run in page:
                dag_id, began = run["dag_id"], _moment(run["start_date"])
                if (dag_id, run["dag_run_id"]) == self._own_run:
                    continue
                begun = [moment for moment in (began, active.get(dag_id)) if moment is not None]
                active[dag_id] = min(begun, default=None)
        return active

    def _due(self, dag_ids: set[str]) -> dict[str, datetime]:
        """Return when the timetables of these DAGs start their next runs."""
        if not dag_ids:
            return {}
        if len(dag_ids) <= FEW_DAGS:
            listed: Iterable[Any] = [dag for dag_id in sorted(dag_ids) if (dag := self._dag(dag_id)) is not None]
        else:
            listed = self._entries("/dags", "dags", order_by="dag_id")
        active = [dag for dag in listed if dag["dag_id"] in dag_ids and not (dag["is_paused"] or dag["is_stale"])]
        moments = {dag["dag_id"]: _moment(dag["next_dagrun_run_after"]) for dag in active}
        return {dag_id: moment for dag_id, moment in moments.items() if moment is not None}

    def _dag(self, dag_id: str) -> Any:
        path = f"/dags/{quote(dag_id, safe='')}"
        answer = self._request("GET", path)
        return None if answer.reports_missing(dag_id) else answer.required("GET", path)

    def _maintenance(self, dag_ids: list[str]) -> set[TaskKey]:
        """Return the tasks of these DAGs that maintain their tables; entries and decorated functions count as writers."""
        if len(dag_ids) > MAX_TASK_LISTS:
            log.warning("All tasks of %d DAGs count as writers, since only %d are read", len(dag_ids), MAX_TASK_LISTS)
        maintaining: set[TaskKey] = set()
        for dag_id in dag_ids[:MAX_TASK_LISTS]:
            path = f"/dags/{quote(dag_id, safe='')}/tasks"
            answer = self._request("GET", path)
            if not answer.is_ok:
                log.warning("All tasks of the DAG %s count as writers: GET %s: %s", dag_id, path, answer.reason)
                continue
            for task in answer.body["tasks"]:
                if (task["class_ref"] or {}).get("module_path") in MAINTENANCE:
                    maintaining.add((dag_id, task["task_id"]))
        return maintaining

    def _entries(self, path: str, key: str, **params: Any) -> Iterator[Any]:
        return chain.from_iterable(
            pages(key, lambda seen: self._ask("GET", path, params={"limit": PAGE, "offset": seen, **params}))
        )

    def _pages_of_runs(self, wanted: Mapping[str, Any]) -> Iterator[list[Any]]:
        path = "/dags/~/dagRuns/list"
        return pages("dag_runs", lambda seen: self._ask("POST", path, body={**wanted, "page_limit": PAGE, "page_offset": seen}))

    def _ask(self, method: str, path: str, **arguments: Any) -> Any:
        return self._request(method, path, **arguments).required(method, path)

    def _request(self, method: str, path: str, **arguments: Any) -> Answer:
        if self._clock() > self._ends:
            raise AirflowUnreachable(f"{self._rest.where} has not listed its DAGs within {duration(LONGEST_READ)}")
        return self._rest.ask(method, path, **arguments)


def _usual(spans: Collection[timedelta]) -> timedelta | None:
    return timedelta(seconds=median(span.total_seconds() for span in spans)) if spans else None


def _filled(found: Mapping[str, tuple[T, ...]]) -> dict[str, tuple[T, ...]]:
    return {address: each for address, each in found.items() if each}


def _rates(uses: _Uses, runs: _Runs, now: datetime) -> dict[str, float]:
    """Return how often each table is read, in runs per day."""
    counts = Counter({dag_id: len(starts) for dag_id, starts in runs.starts.items()})
    days = max((now - runs.since) / timedelta(days=1), 1 / 24)
    rates = {address: sum(counts[dag_id] for dag_id in dag_ids) / days for address, dag_ids in uses.reading.items()}
    return {address: rate for address, rate in rates.items() if rate}


def _table_of(uri: str, catalog_conn_id: str | None) -> str | None:
    """Return the address of an asset's table; ``None`` if it is not a table of this catalog."""
    parts = urlsplit(uri)
    query = dict(parse_qsl(parts.query))
    if parts.scheme != "iceberg" or query.get("catalog_conn_id") != catalog_conn_id:
        return None
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
