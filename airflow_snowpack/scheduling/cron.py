"""Cron expressions with five fields, or six with the seconds first, in a time zone.

    >>> next_tick("0 2 * * *", "America/New_York", datetime(2026, 3, 7, 12, tzinfo=UTC))
    datetime.datetime(2026, 3, 8, 7, 0, tzinfo=datetime.timezone.utc)

Daylight saving changes follow Debian cron's rule (see the library ``cronsim``): a fixed time that is skipped runs right after the
change, a repeated one runs once, and ``*`` hours follow the elapsed time.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from airflow_snowpack.scheduling.declared import parse_text

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)


def parse_cron(value: object) -> str:
    """:raises ValueError: it is not a cron expression, or never matches."""
    expression = parse_text(value)
    fields = len(expression.split())
    if fields not in (5, 6):
        raise ValueError(f"a cron expression has five fields, or six with the seconds first; this has {fields}")
    try:
        next(CronSim(expression, ORIGIN))
    except CronSimError as error:
        raise ValueError(f"it is not a cron expression ({error})") from error
    except StopIteration:
        raise ValueError("no day ever matches it") from None
    return expression


def parse_zone(value: object) -> str:
    """:raises ValueError: it is not the name of an IANA zone."""
    from airflow_snowpack.daily_window import check_zone  # not for each DAG file that names a cron expression

    return check_zone(parse_text(value))


def next_tick(expression: str, zone: str | tzinfo, after: datetime) -> datetime:
    """Return the first tick of the expression after ``after``, in UTC; ``zone`` is an IANA name, or the zone of a DAG."""
    here = after.astimezone(ZoneInfo(zone) if isinstance(zone, str) else zone)
    # CronSim may first yield a past time if it starts in an hour that a clock change repeats.
    ticks = (moment.astimezone(UTC) for moment in CronSim(expression, here))
    return next(tick for tick in ticks if tick > after)
