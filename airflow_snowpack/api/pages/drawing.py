"""The charts of the reports: columns, and lines over time. All numbers are in units of the drawing.

column_chart([("0-9", 12, "12 tables"), …]).columns[0].height
line_chart([Series("current", "waiting", [(at, 120), …])]).lines[0].path
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from airflow_snowpack.api.pages.charts import HEIGHT, RIGHT, TOP, WIDTH, Chart, rounded_up
from airflow_snowpack.humanize import number, size

LEFT, BELOW = 62, 32
LEAST = 1.0
"""What is not zero can be seen."""
LABELS = 8
DATE_WIDTH, TIME_WIDTH, CHARACTER = 66, 130, 7
"""The room of a label below the axis, and of one character."""
GAP, WIDEST = 4, 160.0
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    :param title: the tooltip.
    """

    label: str
    title: str
    x: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChart(Chart):
    """A column for each value."""

    left: int = LEFT
    base: int = HEIGHT - BELOW
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time, each of which holds until the next one.

    :param tone: the style of its line: ``off``, ``waiting``, ``running`` or ``changed``.
    """

    label: str
    tone: str
    points: Sequence[tuple[datetime, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """A series as a path."""

    label: str
    tone: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart(Chart):
    """A line for each series.

    :param ticks: times below the drawing, and where.
    """

    left: int = LEFT
    base: int = HEIGHT - BELOW
    lines: tuple[Line, ...]
    ticks: tuple[tuple[str, float], ...]


def column_chart(values: Sequence[tuple[str, float, str]], *, width: int = WIDTH) -> ColumnChart:
    """Draw labels, values and tooltips as columns.

    :param width: of the drawing; a narrow one keeps its labels readable in a narrow place.
    """
    y, levels = _axis(max((value for _, value, _ in values), default=0))
    step = (width - LEFT - RIGHT) / max(len(values), 1)
    wide = min(step - GAP, WIDEST)
    labelled = ceil(CHARACTER * max((len(label) for label, _, _ in values), default=0) / step) or 1
    columns = tuple(
        Column("" if i % labelled else label, title, round(LEFT + step * (i + 0.5) - wide / 2, 1), round(wide, 1), y(value))
        for i, (label, value, title) in enumerate(values)
    )
    return ColumnChart(levels=levels, columns=columns, width=width, right=width - RIGHT)


def line_chart(series: Sequence[Series], *, width: int = WIDTH) -> LineChart:
    """Draw series over the time that they have together; at least one of them has a point. ``width`` as for columns."""
    moments = [at for each in series for at, _ in each.points]
    first, last = min(moments), max(moments)
    span = (last - first).total_seconds() or 1.0
    height, levels = _axis(max(value for each in series for _, value in each.points))

    def x(at: datetime) -> float:
        return round(LEFT + (width - LEFT - RIGHT) * (at - first).total_seconds() / span, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BELOW - height(value), 1)

    def path(points: Sequence[tuple[datetime, float]]) -> str:
        (start, value), *rest = points
        steps = (f"H{x(at)}V{y(following)}" for at, following in rest)
        return f"M{x(start)} {y(value)}{''.join(steps)}H{width - RIGHT}"

    lines = tuple(Line(each.label, each.tone, path(each.points)) for each in series if each.points)
    # Dates alone where there are as many of them as labels.
    form, room = ("%b %d", DATE_WIDTH) if last - first >= timedelta(days=LABELS) else ("%b %d %H:%M", TIME_WIDTH)
    labels = min(LABELS, (width - LEFT - RIGHT) // room) if last > first else 1
    moments = [first + (last - first) * i / labels for i in range(labels)]
    ticks = tuple((at.strftime(form), x(at)) for at in moments)
    return LineChart(levels=levels, lines=lines, ticks=ticks, width=width, right=width - RIGHT)


def _axis(most: float) -> tuple[Callable[[float], float], tuple[tuple[int, float], ...]]:
    """Return the height of a value, and the horizontal lines."""
    top = rounded_up(max(1, round(most)))

    def height(value: float) -> float:
        full = (HEIGHT - TOP - BELOW) * value / top
        return round(max(full, LEAST) if value else 0.0, 1)

    return height, tuple((level, round(HEIGHT - BELOW - height(level), 1)) for level in sorted({0, top // 2, top}))


def counted(label: str, count: int, noun: str) -> tuple[str, float, str]:
    """Return a column of a count."""
    return label, count, f"{label}: {number(count)} {noun}"


def size_chart(file_sizes: Sequence[int], *, width: int = WIDTH) -> ColumnChart:
    """Draw how many data files there are by size.

    :param file_sizes: as :attr:`TableHealth.file_sizes` has them.
    """
    sizes = [counted(size_range(place), count, "data files") for place, count in enumerate(file_sizes)]
    return column_chart(sizes, width=width)


def size_range(place: int) -> str:
    """Return the sizes of a place of :attr:`TableHealth.file_sizes`."""
    return "<1 MiB" if place == 0 else f"≥{size(2 ** (place - 1) * MIB)}".replace(".0 ", " ")
