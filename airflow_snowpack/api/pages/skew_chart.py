"""How the rows of a build lie in its shards, drawn: a bar for each shard, or for each group of neighbours when there are many.

    chart = skew_chart(manifest.shards)
    chart.bars[0].most, chart.bars[0].average       # heights from the base, in units of the drawing

A group's bar is as high as its largest shard, so that one hot shard among ten thousand is seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_snowpack.api.pages.queue import rounded_up
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.run_inspection import Skew, skew
from airflow_snowpack.humanize import number, plural

WIDTH, HEIGHT = 1200, 200
LEFT, RIGHT, TOP, BOTTOM = 62, 8, 10, 22
MOST_BARS = 160
LABELS = 8
WIDEST = 64.0
LEAST = 1.0
"""What is not zero can be seen."""


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


@dataclass(frozen=True, slots=True)
class SkewChart:
    """The drawing.

    :param levels: horizontal lines: their number and height.
    :param ticks: shard ids below the drawing, and where.
    :param average: the height of the line of the average shard.
    """

    skew: Skew
    group: int
    bars: tuple[ShardBar, ...]
    levels: tuple[tuple[int, float], ...]
    ticks: tuple[tuple[int, float], ...]
    average: float
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    base: int = HEIGHT - BOTTOM


def skew_chart(shards: Sequence[ShardAttemptResult]) -> SkewChart:
    """Draw the shards of a manifest, in the order of their ids."""
    found = skew(shards)
    group = -(-len(shards) // MOST_BARS)
    groups = [shards[begin : begin + group] for begin in range(0, len(shards), group)]
    step = (WIDTH - LEFT - RIGHT) / len(groups)
    top = rounded_up(max(1, found.rows))

    def height(rows: float) -> float:
        full = (HEIGHT - TOP - BOTTOM) * rows / top
        return round(max(full, LEAST) if rows else 0.0, 1)

    width = min(step - 2 if step > 6 else step, WIDEST)
    left = LEFT + (step - width) / 2
    every = -(-len(groups) // LABELS)
    return SkewChart(
        skew=found,
        group=group,
        bars=tuple(_bar(each, left + step * i, width, height, found.largest) for i, each in enumerate(groups)),
        levels=tuple((level, round(HEIGHT - BOTTOM - height(level), 1)) for level in sorted({0, top // 2, top})),
        ticks=tuple((groups[i][0].shard_id, round(LEFT + step * (i + 0.5), 1)) for i in range(0, len(groups), every)),
        average=round(HEIGHT - BOTTOM - height(found.average), 1),
    )


def _bar(
    shards: Sequence[ShardAttemptResult], x: float, width: float, height: Callable[[float], float], hottest: int
) -> ShardBar:
    largest = max(shards, key=lambda shard: shard.rows)
    hot = any(shard.shard_id == hottest for shard in shards)
    if len(shards) == 1:
        return ShardBar(round(x, 2), round(width, 2), height(largest.rows), None, _title(largest), hot)
    average = sum(shard.rows for shard in shards) / len(shards)
    title = (
        f"Shards {shards[0].shard_id} to {shards[-1].shard_id}: {number(round(average))} rows on average, "
        f"at most {number(largest.rows)} in shard {largest.shard_id}"
    )
    return ShardBar(round(x, 2), round(width, 2), height(largest.rows), height(average), title, hot)


def _title(shard: ShardAttemptResult) -> str:
    return f"Shard {shard.shard_id}: {plural(shard.rows, 'row')}"
