"""The charts of the reports: columns, and lines over time. All numbers are in units of the drawing.

column_chart([("0-9", 12, "12 tables"), …]).columns[0].height
line_chart([Series("current", "waiting", [(at, 120), …])]).lines[0].path
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_snowpack.api.pages.charts import HEIGHT, RIGHT, TOP, WIDTH, Chart, rounded_up
from airflow_snowpack.humanize import number, size

LEFT, BELOW = 62, 22
LEAST = 1.0
"""What is not zero can be seen."""
LABELS = 8
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
    lines: tuple[Line, ...]
    ticks: tuple[tuple[datetime, float], ...]


def column_chart(values: Sequence[tuple[str, float, str]]) -> ColumnChart:
    """Draw labels, values and tooltips as columns."""
    y, levels = _axis(max((value for _, value, _ in values), default=0))
    step = (WIDTH - LEFT - RIGHT) / max(len(values), 1)
    width = min(step - GAP, WIDEST)
    columns = tuple(
        Column(label, title, round(LEFT + step * (i + 0.5) - width / 2, 1), round(width, 1), y(value))
        for i, (label, value, title) in enumerate(values)
    )
    return ColumnChart(levels=levels, columns=columns)


def line_chart(series: Sequence[Series]) -> LineChart:
    """Draw series over the time that they have together; at least one of them has a point."""
    moments = [at for each in series for at, _ in each.points]
    first, last = min(moments), max(moments)
    span = (last - first).total_seconds() or 1.0
    height, levels = _axis(max(value for each in series for _, value in each.points))

    def x(at: datetime) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (at - first).total_seconds() / span, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BELOW - height(value), 1)

    def path(points: Sequence[tuple[datetime, float]]) -> str:
        (start, value), *rest = points
        steps = (f"H{x(at)}V{y(following)}" for at, following in rest)
        return f"M{x(start)} {y(value)}{''.join(steps)}H{WIDTH - RIGHT}"

    lines = tuple(Line(each.label, each.tone, path(each.points)) for each in series if each.points)
    ticks = tuple((first + (last - first) * i / LABELS, x(first + (last - first) * i / LABELS)) for i in range(LABELS))
    return LineChart(levels=levels, lines=lines, ticks=ticks)


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


def size_chart(file_sizes: Sequence[int]) -> ColumnChart:
    """Draw how many data files there are by size.

    :param file_sizes: as :attr:`TableHealth.file_sizes` has them.
    """
    return column_chart([counted(size_range(place), count, "data files") for place, count in enumerate(file_sizes)])


def size_range(place: int) -> str:
    """Return the sizes of a place of :attr:`TableHealth.file_sizes`."""
    return "<1 MiB" if place == 0 else f"≥{size(2 ** (place - 1) * MIB)}".replace(".0 ", " ")
