"""The charts of the pages: the queue over time, and how the rows of a build lie in its shards.

    queue_chart(samples).waiting                    # the path of a line
    skew_chart(manifest.shards).bars[0].most        # a height from the base

All numbers are in units of the drawing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_snowpack.builds.manager import Skew, skew
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.humanize import number, plural
from airflow_snowpack.jobs import QueueSample

WIDTH, HEIGHT = 1200, 200
RIGHT, TOP, BOTTOM = 8, 10, 22
QUEUE_LEFT, SKEW_LEFT = 36, 62
MOST_BARS = 160
LABELS = 8
WIDEST = 64.0
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
    most = rounded_up(max([1, *(max(sample.waiting, sample.running) for sample in samples)]))
    step = (WIDTH - QUEUE_LEFT - RIGHT) / len(samples)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most, 1)

    def path(values: list[int]) -> str:
        """From each sample's left edge to its right one, up and down in between."""
        ends = (f"V{y(value)}H{QUEUE_LEFT + step * (i + 1):.1f}" for i, value in enumerate(values))
        return f"M{QUEUE_LEFT} {y(values[0])}" + "".join(ends)

    running = path([sample.running for sample in samples])
    return QueueChart(
        waiting=path([sample.waiting for sample in samples]),
        running=running,
        running_area=f"{running}V{y(0)}H{QUEUE_LEFT}Z",
        levels=tuple((level, y(level)) for level in sorted({0, most // 2, most})),
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
    return shown


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

    left: int = SKEW_LEFT
    skew: Skew
    group: int
    bars: tuple[ShardBar, ...]
    ticks: Marks
    average: float


def skew_chart(shards: Sequence[ShardAttemptResult]) -> SkewChart:
    """Draw the shards of a manifest, in the order of their ids.

    A group's bar is as high as its largest shard, so that one hot shard among ten thousand is seen.
    """
    found = skew(shards)
    group = -(-len(shards) // MOST_BARS)
    groups = [shards[begin : begin + group] for begin in range(0, len(shards), group)]
    step = (WIDTH - SKEW_LEFT - RIGHT) / len(groups)
    top = rounded_up(max(1, found.rows))

    def height(rows: float) -> float:
        full = (HEIGHT - TOP - BOTTOM) * rows / top
        return round(max(full, LEAST) if rows else 0.0, 1)

    width = min(step - 2 if step > 6 else step, WIDEST)
    left = SKEW_LEFT + (step - width) / 2
    every = -(-len(groups) // LABELS)
    return SkewChart(
        skew=found,
        group=group,
        bars=tuple(_bar(each, left + step * i, width, height, found.largest) for i, each in enumerate(groups)),
        levels=tuple((level, round(HEIGHT - BOTTOM - height(level), 1)) for level in sorted({0, top // 2, top})),
        ticks=tuple((groups[i][0].shard_id, round(SKEW_LEFT + step * (i + 0.5), 1)) for i in range(0, len(groups), every)),
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
