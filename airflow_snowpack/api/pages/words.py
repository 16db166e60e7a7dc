"""Numbers, sizes, spans and moments as people read them.

    number(9412)            # '9,412'
    size(312 * 1024**2)     # '312.0 MiB'
    duration(142.3)         # '2 min 22 s'
    ago(then, now)          # '3 min ago'

``static/page.js`` has the same rules for spans and moments and goes on telling them while the page is open.
"""

from datetime import UTC, datetime, timedelta

MIB = 1024**2
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def number(value: float) -> str:
    """With thousands separators; a whole number without a point."""
    return f"{value:,.1f}" if isinstance(value, float) and not value.is_integer() else f"{int(value):,}"


def counted(value: int, noun: str, plural: str | None = None) -> str:
    """``1 job``, ``2,500 jobs``."""
    return f"{value:,} {noun if value == 1 else plural or f'{noun}s'}"


def size(value: float) -> str:
    """Bytes in MiB; what is very small or very large in KiB or GiB."""
    if value < MIB / 10:
        return f"{value / 1024:,.1f} KiB" if value else "0 MiB"
    return f"{value / MIB:,.1f} MiB" if value < 10_000 * MIB else f"{value / 1024**3:,.1f} GiB"


def duration(span: timedelta | float) -> str:
    """At most two units."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    seconds = max(seconds, 0.0)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def ago(moment: datetime, now: datetime) -> str:
    """How long ago, or in how long; one unit."""
    seconds = (now - moment).total_seconds()
    span = one_unit(abs(seconds))
    if span is None:
        return "just now"
    return f"{span} ago" if seconds > 0 else f"in {span}"


def exact(moment: datetime) -> str:
    """To the second, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def one_unit(seconds: float) -> str | None:
    """A span in its largest unit; ``None`` for less than five seconds."""
    if seconds < 5:
        return None
    if seconds < MINUTE:
        return f"{int(seconds)} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)} h"
    return f"{int(seconds // DAY)} d"
