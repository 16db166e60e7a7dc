"""The charts of the pages and the reports: columns, lines over time, and the partitions of a table.

    column_chart([("0-9", 12, "12 tables"), …]).columns[0].height
    line_chart([Series("current", "waiting", [(at, 120), …])]).lines[0].path
    heat_map(health.partitions).cells[0].level      # 0: no file to rewrite, up to 4

All numbers are in units of the drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from airflow_snowpack.humanize import duration, number, plural, size

if TYPE_CHECKING:
    from airflow_snowpack.builds.manager import Skew
    from airflow_snowpack.builds.model import ShardAttemptResult
    from airflow_snowpack.iceberg import PartitionHealth
    from airflow_snowpack.jobs import QueueSample

WIDTH, HEIGHT = 1200, 200
LEFT, RIGHT, TOP, BELOW = 62, 8, 10, 32
MOST_BARS = 160
LABELS = 8
CHARACTER, TIME_OF_DAY = 7, 7
"""The room of a character, and the characters in the room of a time of day."""
ROOMS = {"day": 66, "hour": 66, "minute": 130}
"""The room of a time below the axis."""
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
GAP, WIDEST = 4, 160.0
MIB = 1024**2
LEAST = 1.0
"""What is not zero can be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The frame of a drawing.

    :param levels: horizontal lines.
    :param left: of the area inside the axes, as are the others.
    """

    levels: tuple[tuple[int, float], ...]
    width: int
    right: int
    left: int = LEFT
    height: int = HEIGHT
    top: int = TOP
    base: int = HEIGHT - BELOW


def rounded_up(value: int) -> int:
    """Return the next of 2, 4, 10, 20, 40, 100, …: the top of an axis, which has a whole half."""
    scale = 1
    while True:
        for factor in (2, 4, 10):
            if value <= factor * scale:
                return factor * scale
        scale *= 10


@dataclass(frozen=True, slots=True)
class BarColumn:
    """One column.

    :param label: below it.
    :param at: the time of what it shows; the reader's script puts it into the label and the tooltip.
    :param title: the tooltip.
    :param part: the height of the part of it that has another colour.
    :param hot: its colour differs.
    """

    label: str | datetime
    title: str
    x: float
    width: float
    height: float
    part: float
    at: datetime | None
    hot: bool

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChart(Chart):
    """A column for each value.

    :param mark: the height of a line across all columns.
    """

    columns: tuple[BarColumn, ...]
    mark: float | None


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time, each of which holds until the next one.

    :param tone: the style of its line: ``off``, ``waiting``, ``running`` or ``changed``.
    """

    label: str
    tone: str
    points: Sequence[tuple[datetime, float]]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A series as a path."""

    label: str
    tone: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart(Chart):
    """A line for each series.

    :param ticks: times below the drawing, and where.
    :param ticks_as: how they are shown: ``day``, ``minute`` or ``hour``.
    :param tips: a time, a tooltip, and where its share of the drawing begins and how wide it is.
    """

    lines: tuple[ChartLine, ...]
    ticks: tuple[tuple[datetime, float], ...]
    ticks_as: str
    tips: tuple[tuple[datetime, str, float, float], ...]


def column_chart(
    values: Sequence[tuple[str | datetime, float, str]],
    *,
    parts: Sequence[float] = (),
    hot: int | None = None,
    mark: float | None = None,
    width: int = WIDTH,
) -> ColumnChart:
    """Draw labels, values and tooltips as columns. In a narrow place, a narrow drawing keeps its labels readable.

    :param parts: for each value, the part of it that has another colour.
    :param hot: the place of a value whose column has another colour.
    :param mark: a value for a line across all columns.
    """
    y, levels = _axis(max((value for _, value, _ in values), default=0))
    step = (width - LEFT - RIGHT) / max(len(values), 1)
    wide = min(step - GAP if step > 2 * GAP else step, WIDEST)
    longest = max((len(label) if isinstance(label, str) else TIME_OF_DAY for label, _, _ in values), default=0)
    labelled = ceil(CHARACTER * longest / step) or 1
    columns = tuple(
        BarColumn(
            "" if i % labelled else label,
            title,
            round(LEFT + step * (i + 0.5) - wide / 2, 1),
            round(wide, 1),
            y(value),
            y(parts[i]) if parts else 0.0,
            label if isinstance(label, datetime) else None,
            i == hot,
        )
        for i, (label, value, title) in enumerate(values)
    )
    height = None if mark is None else y(mark)
    return ColumnChart(levels=levels, columns=columns, mark=height, width=width, right=width - RIGHT)


def line_chart(series: Sequence[Series], *, width: int = WIDTH, until: datetime | None = None, tips: bool = False) -> LineChart:
    """Draw series over the time that they have together; at least one of them has a point.

    :param until: the end of the drawing; ``None`` for the last point.
    :param tips: show the values of each moment to a reader who points at it.
    """
    moments = sorted({at for each in series for at, _ in each.points})
    first, last = moments[0], max(until or moments[-1], moments[-1])
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

    lines = tuple(ChartLine(each.label, each.tone, path(each.points)) for each in series if each.points)
    shown_as = "day" if last - first >= timedelta(days=LABELS) else "hour" if LABELS * HOUR < last - first <= DAY else "minute"
    labels = min(LABELS, (width - LEFT - RIGHT) // ROOMS[shown_as]) if last > first else 1
    begin, step = first, (last - first) / labels
    if shown_as == "hour":
        # Full hours; the first label has room beside those of the axis.
        begin = (first + HOUR * 0.75).replace(minute=0, second=0, microsecond=0) + HOUR
        step = ceil(step / HOUR) * HOUR
    ticks = tuple((at, x(at)) for at in (begin + step * i for i in range(labels)) if at < last or at == first)
    return LineChart(
        levels=levels,
        lines=lines,
        ticks=ticks,
        ticks_as=shown_as,
        tips=_tips(series, [(at, x(at)) for at in moments], width - RIGHT) if tips else (),
        width=width,
        right=width - RIGHT,
    )


def _tips(
    series: Sequence[Series], places: Sequence[tuple[datetime, float]], right: int
) -> tuple[tuple[datetime, str, float, float], ...]:
    """Return the values of all series at each moment, for pointing at them."""
    values = [(each.label, dict(each.points)) for each in series]
    ends = [*(x for _, x in places[1:]), right]
    return tuple(
        (at, "; ".join(f"{label}: {number(of[at])}" for label, of in values if at in of), x, round(end - x, 1))
        for (at, x), end in zip(places, ends, strict=True)
    )


def queue_chart(samples: Sequence[QueueSample]) -> LineChart:
    """Draw how many jobs waited and ran."""
    counts = {name: [(each.at, getattr(each, name)) for each in samples] for name in ("running", "waiting")}
    until = samples[-1].at + (samples[-1].at - samples[0].at) / len(samples)
    return line_chart([Series(name, name, points) for name, points in counts.items()], until=until, tips=True)


@dataclass(frozen=True, slots=True)
class SkewChart:
    """The rows of a build's shards: a column for each shard, or for each group of neighbours when there are many."""

    skew: Skew
    group: int
    chart: ColumnChart


def skew_chart(shards: Sequence[ShardAttemptResult]) -> SkewChart:
    """Draw the shards of a manifest, in the order of their ids.

    A group's column is as high as its largest shard, so that one hot shard among ten thousand is seen; its part is the average.
    """
    from airflow_snowpack.builds.manager import skew  # with SQLAlchemy, which the reports of an assessment do without

    found, group = skew(shards), -(-len(shards) // MOST_BARS)
    groups = [shards[begin : begin + group] for begin in range(0, len(shards), group)]
    chart = column_chart(
        [(str(each[0].shard_id), max(shard.rows for shard in each), _shards_title(each)) for each in groups],
        parts=[sum(shard.rows for shard in each) / len(each) for each in groups] if group > 1 else (),
        hot=next((i for i, each in enumerate(groups) if any(shard.shard_id == found.largest for shard in each)), None),
        mark=found.average,
    )
    return SkewChart(found, group, chart)


def _shards_title(shards: Sequence[ShardAttemptResult]) -> str:
    largest = max(shards, key=lambda shard: shard.rows)
    if len(shards) == 1:
        return f"Shard {largest.shard_id}: {plural(largest.rows, 'row')}"
    mean = number(round(sum(shard.rows for shard in shards) / len(shards)))
    most = f"at most {number(largest.rows)} in shard {largest.shard_id}"
    return f"Shards {shards[0].shard_id} to {shards[-1].shard_id}: {mean} rows on average, {most}"


def _axis(most: float) -> tuple[Callable[[float], float], tuple[tuple[int, float], ...]]:
    """Return the height of a value, and the horizontal lines."""
    top = rounded_up(max(1, ceil(most)))

    def height(value: float) -> float:
        full = (HEIGHT - TOP - BELOW) * value / top
        return round(max(full, LEAST) if value else 0.0, 1)

    return height, tuple((level, round(HEIGHT - BELOW - height(level), 1)) for level in sorted({0, top // 2, top}))


def throughput_chart(hours: Sequence[QueueSample], *, width: int = WIDTH) -> ColumnChart:
    """Draw how many jobs ended up to each of these moments, and how many of them failed."""
    texts = [f"{number(each.completed)} completed, {number(each.failed)} failed" for each in hours]
    values = [(each.at, each.completed + each.failed, text) for each, text in zip(hours, texts, strict=True)]
    return column_chart(values, parts=[each.failed for each in hours], width=width)


def wait_chart(hours: Sequence[QueueSample], *, width: int = WIDTH) -> ColumnChart:
    """Draw the longest wait up to each of these moments, in minutes, and the median as a part of it."""
    waits = [(each.longest_wait or timedelta(), each.median_wait or timedelta()) for each in hours]
    texts = [
        f"median wait {duration(median)}, longest {duration(longest)}" if each.waits else "no job was claimed"
        for each, (longest, median) in zip(hours, waits, strict=True)
    ]
    values = [(each.at, longest / MINUTE, text) for each, (longest, _), text in zip(hours, waits, texts, strict=True)]
    return column_chart(values, parts=[median / MINUTE for _, median in waits], width=width)


def counted(label: str, count: int, noun: str) -> tuple[str, float, str]:
    return label, count, f"{label}: {number(count)} {noun}"


def size_chart(file_sizes: Sequence[int], *, width: int = WIDTH) -> ColumnChart:
    """Draw how many data files there are by size, as :attr:`TableHealth.file_sizes` counts them."""
    sizes = [counted(size_range(place), count, "data files") for place, count in enumerate(file_sizes)]
    return column_chart(sizes, width=width)


def size_range(place: int) -> str:
    """Return the sizes of a place of :attr:`TableHealth.file_sizes`."""
    return "<1 MiB" if place == 0 else f"≥{size(2 ** (place - 1) * MIB)}".replace(".0 ", " ")


CELL, MOST_COLUMNS, HEAT_TOP = 18, 60, 16
MOST_LABEL = 22
"""Characters beside a row."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A partition.

    :param level: the share of its data files that a rewrite would improve: 0 for none, then a number for each quarter, up to 4.
    :param title: the tooltip.
    """

    x: int
    y: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A square for each partition, with labels of the rows, and of the columns if they mean something."""

    left: int
    width: int
    height: int
    cells: tuple[HeatCell, ...]
    rows: tuple[tuple[str, int], ...]
    columns: tuple[tuple[str, int], ...]


def heat_map(partitions: Sequence[PartitionHealth]) -> HeatMap:
    """Draw partitions, of which there is at least one, in the order of their values.

    The last field and the others are the axes, the one with more values across. If that is too wide, or there are partitions of
    several specs, one follows the other.
    """
    ordered = sorted(partitions, key=lambda each: (each.spec_id, [_sortable(value) for value in each.values]))
    split = [each.label.rpartition("/")[::2] for each in ordered]
    down, across = ([*dict.fromkeys(names)] for names in zip(*split, strict=True))
    if len(down) > len(across):
        down, across, split = across, down, [(last, first) for first, last in split]
    columns = list[tuple[str, int]]()
    if len(across) <= MOST_COLUMNS and len({each.spec_id for each in ordered}) == 1:
        places = [(across.index(last), down.index(first)) for first, last in split]
        columns = _thinned([(label.rpartition("=")[2], CELL * at) for at, label in enumerate(across)])
        down = [label or across[0].partition("=")[0] for label in down]
    else:
        places = [(at % MOST_COLUMNS, at // MOST_COLUMNS) for at in range(len(ordered))]
        down = [each.label for each in ordered[::MOST_COLUMNS]]
    rows = [label if len(label) <= MOST_LABEL else f"{label[: MOST_LABEL - 1]}…" for label in down]
    left = CHARACTER * max(map(len, rows)) + 12
    return HeatMap(
        left,
        left + CELL * (1 + max(x for x, _ in places)),
        HEAT_TOP + CELL * len(rows),
        tuple(_heat_cell(each, left + CELL * x, HEAT_TOP + CELL * y) for each, (x, y) in zip(ordered, places, strict=True)),
        tuple((label, HEAT_TOP + CELL * y + 12) for y, label in enumerate(rows)),
        tuple((label, left + x) for label, x in columns),
    )


def _sortable(value: object) -> tuple[bool, str, Any]:
    return value is None, type(value).__name__, 0 if value is None else value


def _heat_cell(partition: PartitionHealth, x: int, y: int) -> HeatCell:
    improved = partition.small_files + partition.large_files + partition.with_deletes_files
    files = f"{number(improved)} of {plural(partition.data_files, 'data file')} to rewrite"
    level = ceil(4 * improved / partition.data_files) if partition.data_files else 0
    return HeatCell(x, y, level, f"{partition.label}: {files}, {size(partition.bytes)}")


def _thinned(labels: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Leave out labels so that the others do not overlap."""
    return labels[:: ceil(CHARACTER * (1 + max(len(label) for label, _ in labels)) / CELL)]
