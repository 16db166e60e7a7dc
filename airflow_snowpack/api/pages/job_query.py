"""The filter of the list of jobs in the page's address, and back.

    query = JobQuery.read(request.query_params, catalog="lake", now=now)
    query.filter                 # what the store searches for
    query.to_url(status=None)    # the address without the filter by status

The invariant: an invalid address shows no jobs and the reason. It is never read as a wider filter than was meant,
since a batch works on whatever the filter shows.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from airflow_snowpack.iceberg import InvalidTableName, TableName
from airflow_snowpack.jobs import JobFilter, JobStatus

PERIODS = {
    "1h": ("last hour", timedelta(hours=1)),
    "24h": ("last 24 hours", timedelta(hours=24)),
    "7d": ("last 7 days", timedelta(days=7)),
    "30d": ("last 30 days", timedelta(days=30)),
}
DRY_RUN = {"true": True, "false": False}
NAMES = ("table", "search", "dag_id", "dry_run", "period", "since", "until")
LONGEST = 500


@dataclass(frozen=True, slots=True)
class JobQuery:
    """The parameters of the address, and what they mean.

    :param given: the parameters that narrow, by name; ``status`` may have several values.
    :param problem: why they cannot be understood; then the filter must not be used.
    """

    given: tuple[tuple[str, str], ...]
    filter: JobFilter
    problem: str | None = None

    @classmethod
    def read(cls, params: QueryParams, *, catalog: str, now: datetime) -> "JobQuery":
        """Read the address, with periods back from ``now``. Empty parameters, as an untouched form sends them, narrow nothing."""
        values = {name: _text(params.get(name, "")) for name in NAMES}
        values["dag_id"] = values["dag_id"] or _text(params.get("dag", ""))
        statuses = [status for status in dict.fromkeys(params.getlist("status")) if status]
        given = (*(("status", status) for status in statuses), *((name, value) for name, value in values.items() if value))
        try:
            return cls(given, _filter(statuses, values, catalog, now))
        except ValueError as problem:
            return cls(given, JobFilter(), str(problem))

    def value(self, name: str) -> str:
        return next((value for given, value in self.given if given == name), "")

    @property
    def narrows(self) -> bool:
        return bool(self.given)

    def to_url(self, **changes: str | None) -> str:
        """Return the query of an address with these parameters changed or, with ``None``, left out."""
        kept = [(name, value) for name, value in self.given if name not in changes]
        new = [(name, value) for name, value in changes.items() if value is not None]
        return urlencode([*kept, *new])

    def to_api(self, until: datetime) -> str:
        """Return the same filter for ``/jobs/batch/…``, limited to the jobs that existed when the page was made."""
        which = self.filter
        narrowed = {
            "table": which.table.dotted if which.table else None,
            "search": which.search,
            "dag": which.dag_id,
            "dry_run": None if which.dry_run is None else str(which.dry_run).lower(),
            "since": which.since.isoformat() if which.since else None,
            "until": min(which.until or until, until).isoformat(),
        }
        statuses = [("status", status.value) for status in sorted(which.statuses)]
        return urlencode([*statuses, *((name, value) for name, value in narrowed.items() if value is not None)])


def _filter(statuses: list[str], values: dict[str, str], catalog: str, now: datetime) -> JobFilter:
    too_long = next((name for name, value in values.items() if len(value) > LONGEST), None)
    if too_long:
        raise ValueError(f"The filter by {too_long} has more than {LONGEST} characters. Shorten it.")
    period, dry_run, table = (values[name] for name in ("period", "dry_run", "table"))
    if dry_run and dry_run not in DRY_RUN:
        raise ValueError(f"The filter by dry runs is true or false, not {dry_run!r:.60}.")
    try:
        named = TableName.parse(table, catalog=catalog) if table else None
    except InvalidTableName as problem:
        raise ValueError(str(problem)) from problem
    return JobFilter(
        table=named,
        statuses=frozenset(JobStatus(_known("status", status, list(JobStatus))) for status in statuses),
        search=values["search"] or None,
        dag_id=values["dag_id"] or None,
        dry_run=DRY_RUN.get(dry_run),
        since=now - PERIODS[_known("period", period, PERIODS)][1] if period else _moment("since", values["since"]),
        until=_moment("until", values["until"]),
    )


def _text(given: str) -> str:
    """What was given, trimmed. No database takes a NUL character."""
    return given.replace("\x00", "").strip()


def _known(name: str, text: str, values: Collection[str]) -> str:
    if text not in values:
        raise ValueError(f"The {name} {text!r:.60} is not known. Use one of {', '.join(values)}.")
    return text


def _moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"The filter's {name!r} is {text!r:.60}, which is no moment. Write it as 2026-11-21T06:00:00Z."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
