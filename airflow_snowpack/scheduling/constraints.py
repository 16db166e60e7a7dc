"""The run constraints.

    constraints=[TimeWindow("22:00", "06:00", tz="America/New_York"), MaxConcurrent(2, group="compaction"),
    SinceLastRun("5m")]

Their settled semantics: concurrency counts every active run of the DAG, manual ones and backfills too; a successful run
that ended within the period blocks ``SinceLastRun``, and so does any active run; a delay counts from the moment that
the trigger was satisfied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from airflow_snowpack.scheduling.amounts import parse_count
from airflow_snowpack.scheduling.constraint import Constraint, Facts, OnUnmet, Ruling, later, met
from airflow_snowpack.scheduling.cron import check_zone
from airflow_snowpack.scheduling.declared import declaration, parse_period, parse_text
from airflow_snowpack.scheduling.errors import InvalidSchedule

FEW_DAYS = 4
"""Any window opens within as many: a zone has left out a whole day before."""


def dag_wait_key(dag_id: str) -> str:
    """What waits for a run of this DAG to end."""
    return f"dag:{dag_id}"


def group_wait_key(group: str) -> str:
    """What waits for a run of this group to end."""
    return f"group:{group}"


def pool_wait_key(pool: str) -> str:
    """What waits for slots of this pool."""
    return f"pool:{pool}"


def load_wait_key(probe: str) -> str:
    """What waits for this load to fall."""
    return f"load:{probe}"


@declaration
class MaxConcurrent(Constraint):
    """At most so many active runs of the DAG or, with a group, of all DAGs whose schedules name the group."""

    kind: ClassVar[str] = "max_concurrent"
    limit: int
    group: str | None = None
    on_unmet: OnUnmet = OnUnmet.WAIT

    def __post_init__(self) -> None:
        self._read("limit", parse_count)
        self._read("group", lambda value: None if value is None else parse_text(value))
        self._read_on_unmet()

    def look(self, facts: Facts) -> Ruling:
        if self.group is None:
            active, whose, key = facts.active_runs(facts.dag_id), facts.dag_id, dag_wait_key(facts.dag_id)
        else:
            active, whose = facts.active_runs_of_group(self.group), f"group {self.group}"
            key = group_wait_key(self.group)
        says = f"{active} of at most {self.limit} runs of {whose} are active"
        return _after_the_more_urgent(facts, key, says) if active < self.limit else later(says, waits_for=key)


@declaration
class MaxRuns(Constraint):
    """At most so many launches of this schedule within any period of this length."""

    kind: ClassVar[str] = "max_runs"
    limit: int
    per: timedelta | str
    on_unmet: OnUnmet = OnUnmet.WAIT

    def __post_init__(self) -> None:
        self._read("limit", parse_count)
        self._read("per", parse_period)
        self._read_on_unmet()

    def look(self, facts: Facts) -> Ruling:
        assert isinstance(self.per, timedelta), "checked when it was made"
        launches = [moment for moment in facts.launches_since(facts.now - self.per) if moment > facts.now - self.per]
        says = f"{len(launches)} of at most {self.limit} launches within {self.per}"
        if len(launches) < self.limit:
            return met(says)
        return later(says, launches[-self.limit] + self.per)


@declaration
class Delay(Constraint):
    """Not before so long after the trigger was satisfied."""

    kind: ClassVar[str] = "delay"
    may_skip: ClassVar[bool] = False
    period: timedelta | str
    on_unmet: OnUnmet = OnUnmet.WAIT

    def __post_init__(self) -> None:
        self._read("period", parse_period)
        self._read_on_unmet()

    def look(self, facts: Facts) -> Ruling:
        assert isinstance(self.period, timedelta), "checked when it was made"
        due = facts.triggered_at + self.period
        return (
            met(f"{self.period} have passed since the trigger") if facts.now >= due else later(f"delayed by {self.period}", due)
        )


@declaration
class SinceLastRun(Constraint):
    """Not within so long after a successful run of the DAG ended, and not while one is active."""

    kind: ClassVar[str] = "since_last_run"
    period: timedelta | str
    on_unmet: OnUnmet = OnUnmet.WAIT

    def __post_init__(self) -> None:
        self._read("period", parse_period)
        self._read_on_unmet()

    def look(self, facts: Facts) -> Ruling:
        assert isinstance(self.period, timedelta), "checked when it was made"
        if facts.active_runs(facts.dag_id):
            return later(f"a run of {facts.dag_id} is active", waits_for=dag_wait_key(facts.dag_id))
        ended = facts.last_success(facts.dag_id)
        due = None if ended is None else ended + self.period
        if due is None or facts.now >= due:
            return met(f"no run of {facts.dag_id} succeeded within {self.period}")
        return later(f"a run of {facts.dag_id} succeeded less than {self.period} ago", due)


@declaration
class TimeWindow(Constraint):
    """Only from ``start`` until before ``end``, by the clocks of a zone; it may go past midnight.

    On the day the clocks change, the wall clock decides: an hour that is left out is not there, one that comes twice counts
    twice.

    :param start: ``"22:00"``, to the minute.
    :param tz: an IANA zone.
    """

    kind: ClassVar[str] = "time_window"
    start: time | str
    end: time | str
    tz: str = "UTC"
    on_unmet: OnUnmet = OnUnmet.WAIT

    def __post_init__(self) -> None:
        self._read("start", parse_minute)
        self._read("end", parse_minute)
        self._read("tz", lambda value: check_zone(parse_text(value)))
        self._read_on_unmet()
        if self.start == self.end:
            raise InvalidSchedule(f"{self.kind}.end", f"{self.end:%H:%M}", "it must differ from the start")

    def look(self, facts: Facts) -> Ruling:
        window = f"{self.start:%H:%M} to {self.end:%H:%M} {self.tz}"
        if self._holds(facts.now):
            return met(f"within {window}")
        return later(f"outside of {window}", self._next_start(facts.now))

    def _holds(self, moment: datetime) -> bool:
        assert isinstance(self.start, time), "checked when it was made"
        assert isinstance(self.end, time), "checked when it was made"
        wall = moment.astimezone(ZoneInfo(self.tz)).time()
        if self.start < self.end:
            return self.start <= wall < self.end
        return wall >= self.start or wall < self.end

    def _next_start(self, now: datetime) -> datetime:
        """The first moment after now at which the window is open: one of its starts, or one at which the clock leaps into it."""
        assert isinstance(self.start, time), "checked when it was made"
        zone = ZoneInfo(self.tz)
        today = now.astimezone(zone).date()
        days = [datetime.combine(today + timedelta(days=days), self.start, zone) for days in range(FEW_DAYS)]
        starts = [start.replace(fold=fold).astimezone(UTC) for start in days for fold in (0, 1)]
        return min(moment for moment in [*starts, *_leaps(zone, now)] if moment > now and self._holds(moment))


def _leaps(zone: ZoneInfo, now: datetime) -> Iterator[datetime]:
    """When the clocks of the zone change within the next few days, to the second."""
    for hour in range(FEW_DAYS * 24):
        before = (now + timedelta(hours=hour)).replace(microsecond=0)
        after = before + timedelta(hours=1)
        was, becomes = before.astimezone(zone).utcoffset(), after.astimezone(zone).utcoffset()
        if was == becomes:
            continue
        while after - before > timedelta(seconds=1):
            middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
            before, after = (middle, after) if middle.astimezone(zone).utcoffset() == was else (before, middle)
        yield after.astimezone(UTC)


@declaration
class PoolSlots(Constraint):
    """Only while an Airflow pool has so many free slots that no more urgent schedule waits for.

    A run that was let through is taken to need as many, until Airflow shows it in the pool.
    """

    kind: ClassVar[str] = "pool_slots"
    pool: str
    free: int = 1
    on_unmet: OnUnmet = OnUnmet.WAIT

    def __post_init__(self) -> None:
        self._read("pool", parse_text)
        self._read("free", parse_count)
        self._read_on_unmet()

    def look(self, facts: Facts) -> Ruling:
        from airflow_snowpack.scheduling.airflow_port import Unavailable  # a DAG file declares constraints and rules on none

        key, free = pool_wait_key(self.pool), facts.free_slots(self.pool)
        if free is None:
            return later(f"there is no pool {self.pool!r}", waits_for=key)
        if isinstance(free, Unavailable):
            return later(f"the free slots of pool {self.pool} are not known: {free.why}", waits_for=key)
        coming = facts.held(key)
        promised = f", and {coming} are kept for runs that are on their way" if coming else ""
        if free - coming < self.free:
            return later(f"{free} of {self.free} slots of pool {self.pool} are free{promised}", waits_for=key)
        return _after_the_more_urgent(facts, key, f"{free} slots of pool {self.pool} are free{promised}")


@declaration
class ClusterLoad(Constraint):
    """Only while a probe of the installation's says that the load is below a limit, and nothing more urgent waits for that.

    :param probe: ``"package.module:function"``; the function takes nothing and gives a number.
    :param each: how much one run adds, as the probe measures it: what was let through counts until the probe can show it, a
        minute later. ``None``: nobody knows, so that one run starts at a time.
    """

    kind: ClassVar[str] = "cluster_load"
    probe: str
    below: float = 0.8
    on_unmet: OnUnmet = OnUnmet.WAIT
    each: float | None = None

    def __post_init__(self) -> None:
        self._read("probe", parse_probe)
        self._read("below", parse_limit)
        self._read("each", lambda value: None if value is None else parse_limit(value))
        self._read_on_unmet()

    def look(self, facts: Facts) -> Ruling:
        load, key = facts.load(self.probe), load_wait_key(self.probe)
        coming = facts.held(key)
        says = f"the load is {load:.3g} ({self.probe}), the limit {self.below:g}"
        if coming:
            says += f", and it does not show {coming} {'run' if coming == 1 else 'runs'} on the way yet"
        if (coming and self.each is None) or load + coming * (self.each or 0) >= self.below:
            return later(says, waits_for=key)
        return _after_the_more_urgent(facts, key, says)


def _after_the_more_urgent(facts: Facts, key: str, says: str) -> Ruling:
    before = facts.more_urgent(key)
    return later(f"{says}, but {before} of a higher priority wait for that", waits_for=key) if before else met(says)


def parse_minute(value: object) -> time:
    """:raises ValueError: it is no time of day to the minute."""
    parsed = value if isinstance(value, time) else None
    if isinstance(value, str) and len(value) == len("HH:MM"):
        with suppress(ValueError):
            parsed = time.fromisoformat(value)
    if parsed is None or parsed.tzinfo is not None or parsed.second or parsed.microsecond:
        raise ValueError('it must be a time of day to the minute, such as "22:00"')
    return parsed


def parse_probe(value: object) -> str:
    """:raises ValueError: it does not name a function."""
    module, colon, function = str(value).partition(":")
    if not colon or not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError('it must name a function as "package.module:function"')
    return str(value)


def parse_limit(value: object) -> float:
    """:raises ValueError: it is no positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ValueError("it must be a number above zero")
    return float(value)


CONSTRAINTS: dict[str, type[Constraint]] = {
    MaxConcurrent.kind: MaxConcurrent,
    MaxRuns.kind: MaxRuns,
    Delay.kind: Delay,
    SinceLastRun.kind: SinceLastRun,
    TimeWindow.kind: TimeWindow,
    PoolSlots.kind: PoolSlots,
    ClusterLoad.kind: ClusterLoad,
}
