"""The charts of the pages and the reports: the queue over time, the rows of a build's shards, columns, lines over time,
and the partitions of a table.

    queue_chart(samples).waiting                    # the path of a line
    skew_chart(manifest.shards).bars[0].most        # a height from the base
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
RIGHT, TOP, BOTTOM, BELOW = 8, 10, 22, 32
QUEUE_LEFT, LEFT = 36, 62
MOST_BARS = 160
LABELS = 8
DATE_WIDTH, TIME_WIDTH, CHARACTER = 66, 130, 7
"""The room of a label below the axis, and of one character."""
HOUR = 7
"""The room of a time of day, in characters."""
GAP, WIDEST_BAR, WIDEST = 4, 64.0, 160.0
MIB = 1024**2
LEAST = 1.0
"""What is not zero can be seen."""

Marks = tuple[tuple[int, float], ...]
"""Numbers beside or below a drawing, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The frame of a drawing.

    :param left: of the area inside the axes, as are the others.
    :param levels: horizontal lines.
    """

    left: int
    levels: Marks
    width: int = WIDTH
    height: int = HEIGHT
    right: int = WIDTH - RIGHT
    top: int = TOP
    base: int = HEIGHT - BOTTOM


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChart(Chart):
    """How many jobs waited and ran, as paths.

    :param hours: times below the drawing, and where.
    :param columns: the share of each sample for pointing at it: where it begins, and its width.
    """

    left: int = QUEUE_LEFT
    waiting: str
    running: str
    running_area: str
    hours: tuple[tuple[datetime, float], ...]
    columns: tuple[tuple[QueueSample, float, float], ...]


def queue_chart(samples: Sequence[QueueSample]) -> QueueChart:
    """Draw the samples as steps: a count holds until the next one."""
    height, levels = _axis(max(max(sample.waiting, sample.running) for sample in samples), BOTTOM)
    step = (WIDTH - QUEUE_LEFT - RIGHT) / len(samples)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - height(value), 1)

    def path(values: list[int]) -> str:
        ends = (f"V{y(value)}H{QUEUE_LEFT + step * (i + 1):.1f}" for i, value in enumerate(values))
        return f"M{QUEUE_LEFT} {y(values[0])}" + "".join(ends)

    running = path([sample.running for sample in samples])
    return QueueChart(
        waiting=path([sample.waiting for sample in samples]),
        running=running,
        running_area=f"{running}V{y(0)}H{QUEUE_LEFT}Z",
        levels=levels,
        hours=tuple(_hours(samples, step)),
        columns=tuple((sample, round(QUEUE_LEFT + step * i, 1), round(step, 2)) for i, sample in enumerate(samples)),
    )


def _hours(samples: Sequence[QueueSample], step: float) -> list[tuple[datetime, float]]:
    """Every fourth full hour."""
    shown: list[tuple[datetime, float]] = []
    for i, sample in enumerate(samples[1:], start=1):
        hour = sample.at.replace(minute=0, second=0, microsecond=0)
        if hour > samples[i - 1].at and hour.hour % 4 == 0:
            share = (hour - samples[i - 1].at) / (sample.at - samples[i - 1].at)
            shown.append((hour, round(QUEUE_LEFT + step * (i + share), 1)))
    return [(hour, x) for hour, x in shown if x < WIDTH - 2 * CHARACTER]  # the last label would be cut


def rounded_up(value: int) -> int:
    """Return the next of 2, 4, 10, 20, 40, 100, …: the top of an axis, which has a whole half."""
    scale = 1
    while True:
        for factor in (2, 4, 10):
            if value <= factor * scale:
                return factor * scale
        scale *= 10


@dataclass(frozen=True, slots=True)
class ShardBar:
    """One bar.

    :param most: the height of its largest shard.
    :param average: that of its average one, for a group.
    :param title: the tooltip.
    :param hot: the largest shard of all is in it.
    """

    x: float
    width: float
    most: float
    average: float | None
    title: str
    hot: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewChart(Chart):
    """A bar for each shard, or for each group of neighbours when there are many.

    :param ticks: shard ids below the drawing.
    :param average: the height of the line of the average shard.
    """

    left: int = LEFT
    skew: Skew
    group: int
    bars: tuple[ShardBar, ...]
    ticks: Marks
    average: float


def skew_chart(shards: Sequence[ShardAttemptResult]) -> SkewChart:
    """Draw the shards of a manifest, in the order of their ids.

    A group's bar is as high as its largest shard, so that one hot shard among ten thousand is seen.
    """
    from airflow_snowpack.builds.manager import skew  # with SQLAlchemy, which the reports of an assessment do without

    found = skew(shards)
    group = -(-len(shards) // MOST_BARS)
    groups = [shards[begin : begin + group] for begin in range(0, len(shards), group)]
    step = (WIDTH - LEFT - RIGHT) / len(groups)
    height, levels = _axis(found.rows, BOTTOM)
    width = min(step - 2 if step > 6 else step, WIDEST_BAR)
    left = LEFT + (step - width) / 2
    every = -(-len(groups) // LABELS)
    return SkewChart(
        skew=found,
        group=group,
        bars=tuple(_bar(each, left + step * i, width, height, found.largest) for i, each in enumerate(groups)),
        levels=levels,
        ticks=tuple((groups[i][0].shard_id, round(LEFT + step * (i + 0.5), 1)) for i in range(0, len(groups), every)),
        average=round(HEIGHT - BOTTOM - height(found.average), 1),
    )


def _bar(
    shards: Sequence[ShardAttemptResult], x: float, width: float, height: Callable[[float], float], hottest: int
) -> ShardBar:
    largest = max(shards, key=lambda shard: shard.rows)
    hot = any(shard.shard_id == hottest for shard in shards)
    if len(shards) == 1:
        title, average = f"Shard {largest.shard_id}: {plural(largest.rows, 'row')}", None
    else:
        mean = sum(shard.rows for shard in shards) / len(shards)
        average = height(mean)
        title = (
            f"Shards {shards[0].shard_id} to {shards[-1].shard_id}: {number(round(mean))} rows on average, "
            f"at most {number(largest.rows)} in shard {largest.shard_id}"
        )
    return ShardBar(round(x, 2), round(width, 2), height(largest.rows), average, title, hot)


@dataclass(frozen=True, slots=True)
class BarColumn:
    """One column.

    :param label: below it.
    :param at: the time of what it shows; the reader's script puts it into the label and the tooltip.
    :param title: the tooltip.
    :param part: the height of the part of it that has another colour.
    """

    label: str | datetime
    title: str
    x: float
    width: float
    height: float
    part: float = 0.0
    at: datetime | None = None

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChart(Chart):
    """A column for each value."""

    left: int = LEFT
    base: int = HEIGHT - BELOW
    columns: tuple[BarColumn, ...]


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
    :param ticks_as: how they are shown: ``day`` or ``minute``.
    """

    left: int = LEFT
    base: int = HEIGHT - BELOW
    lines: tuple[ChartLine, ...]
    ticks: tuple[tuple[datetime, float], ...]
    ticks_as: str


def column_chart(
    values: Sequence[tuple[str | datetime, float, str]], *, parts: Sequence[float] = (), width: int = WIDTH
) -> ColumnChart:
    """Draw labels, values and tooltips as columns. In a narrow place, a narrow drawing keeps its labels readable.

    :param parts: for each value, the part of it that has another colour.
    """
    y, levels = _axis(max((value for _, value, _ in values), default=0), BELOW)
    step = (width - LEFT - RIGHT) / max(len(values), 1)
    wide = min(step - GAP, WIDEST)
    longest = max((len(label) if isinstance(label, str) else HOUR for label, _, _ in values), default=0)
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
        )
        for i, (label, value, title) in enumerate(values)
    )
    return ColumnChart(levels=levels, columns=columns, width=width, right=width - RIGHT)


def line_chart(series: Sequence[Series], *, width: int = WIDTH) -> LineChart:
    """Draw series over the time that they have together; at least one of them has a point."""
    moments = [at for each in series for at, _ in each.points]
    first, last = min(moments), max(moments)
    span = (last - first).total_seconds() or 1.0
    height, levels = _axis(max(value for each in series for _, value in each.points), BELOW)

    def x(at: datetime) -> float:
        return round(LEFT + (width - LEFT - RIGHT) * (at - first).total_seconds() / span, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BELOW - height(value), 1)

    def path(points: Sequence[tuple[datetime, float]]) -> str:
        (start, value), *rest = points
        steps = (f"H{x(at)}V{y(following)}" for at, following in rest)
        return f"M{x(start)} {y(value)}{''.join(steps)}H{width - RIGHT}"

    lines = tuple(ChartLine(each.label, each.tone, path(each.points)) for each in series if each.points)
    # Dates alone where there are as many of them as labels.
    shown_as, room = ("day", DATE_WIDTH) if last - first >= timedelta(days=LABELS) else ("minute", TIME_WIDTH)
    labels = min(LABELS, (width - LEFT - RIGHT) // room) if last > first else 1
    moments = [first + (last - first) * i / labels for i in range(labels)]
    ticks = tuple((at, x(at)) for at in moments)
    return LineChart(levels=levels, lines=lines, ticks=ticks, ticks_as=shown_as, width=width, right=width - RIGHT)


def _axis(most: float, below: int) -> tuple[Callable[[float], float], Marks]:
    """Return the height of a value and the horizontal lines, with this room below the base."""
    top = rounded_up(max(1, round(most)))

    def height(value: float) -> float:
        full = (HEIGHT - TOP - below) * value / top
        return round(max(full, LEAST) if value else 0.0, 1)

    return height, tuple((level, round(HEIGHT - below - height(level), 1)) for level in sorted({0, top // 2, top}))


def throughput_chart(hours: Sequence[QueueSample], *, width: int = WIDTH) -> ColumnChart:
    """Draw how many jobs ended up to each of these moments, and how many of them failed."""
    values = [
        (each.at, each.completed + each.failed, f"{number(each.completed)} completed, {number(each.failed)} failed")
        for each in hours
    ]
    return column_chart(values, parts=[each.failed for each in hours], width=width)


def wait_chart(hours: Sequence[QueueSample], *, width: int = WIDTH) -> ColumnChart:
    """Draw the longest wait up to each of these moments, in minutes, and the median as a part of it."""
    values, medians = [], []
    for each in hours:
        longest, median = each.longest_wait or 0.0, each.median_wait or 0.0
        text = f"median wait {duration(median)}, longest {duration(longest)}" if each.waits else "no job was claimed"
        values.append((each.at, longest / 60, text))
        medians.append(median / 60)
    return column_chart(values, parts=medians, width=width)


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
