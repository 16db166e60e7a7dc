"""The page of the queue: how deep, how old, how it went over the last day, and the drain switch."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, Page, PageRoute
from airflow_snowpack.jobs import QueueSample

PERIOD = timedelta(days=1)
STEPS = 96
KEPT = timedelta(minutes=1)
WIDTH, HEIGHT = 1200, 200
LEFT, RIGHT, TOP, BOTTOM = 36, 8, 10, 22
ROUND = (1, 2, 5)

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Column:
    """One sample's share of the drawing, for pointing at it."""

    sample: QueueSample
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Chart:
    """How many jobs waited and ran, as paths.

    :param levels: horizontal lines: their number and height.
    :param hours: moments below the drawing, and where.
    """

    waiting: str
    running: str
    running_area: str
    levels: tuple[tuple[int, float], ...]
    hours: tuple[tuple[datetime, float], ...]
    columns: tuple[Column, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    base: int = HEIGHT - BOTTOM


@router.get("/queue")
def queue(page: Here) -> HTMLResponse:
    samples = _samples(page)
    return page.render(
        "queue.html",
        "Queue",
        chart=chart(samples),
        hourly=list(reversed(samples))[:: STEPS // 24],
        busy=any(sample.waiting or sample.running for sample in samples),
    )


def _samples(page: Page) -> list[QueueSample]:
    """They are computed from every job of two days, which would be too much for each refresh."""
    state, now = page.request.app.state, page.now
    at, kept = getattr(state, "queue_samples", (None, []))
    if at is None or now - at >= KEPT:
        at, kept = state.queue_samples = now, page.services.jobs.queue_over_time(PERIOD, STEPS)
    return list(kept)


def chart(samples: list[QueueSample]) -> Chart:
    """Draw the samples as steps: a count holds until the next one."""
    most = rounded_up(max([1, *(max(sample.waiting, sample.running) for sample in samples)]))
    step = (WIDTH - LEFT - RIGHT) / len(samples)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most, 1)

    def path(values: list[int]) -> str:
        """From each sample's left edge to its right one, up and down in between."""
        return f"M{LEFT} {y(values[0])}" + "".join(f"V{y(value)}H{LEFT + step * (i + 1):.1f}" for i, value in enumerate(values))

    running = path([sample.running for sample in samples])
    return Chart(
        waiting=path([sample.waiting for sample in samples]),
        running=running,
        running_area=f"{running}V{y(0)}H{LEFT}Z",
        levels=tuple((level, y(level)) for level in sorted({0, most // 2, most})),
        hours=tuple(_hours(samples, step)),
        columns=tuple(Column(sample, round(LEFT + step * i, 1), round(step, 2)) for i, sample in enumerate(samples)),
    )


def rounded_up(value: int) -> int:
    """The next of 2, 4, 10, 20, 40, 100, …, which has a whole half."""
    scale = 1
    while True:
        for factor in ROUND:
            if value <= 2 * factor * scale:
                return 2 * factor * scale
        scale *= 10


def _hours(samples: list[QueueSample], step: float) -> list[tuple[datetime, float]]:
    """Every fourth full hour."""
    shown: list[tuple[datetime, float]] = []
    for i, sample in enumerate(samples[1:], start=1):
        hour = sample.at.replace(minute=0, second=0, microsecond=0)
        if hour > samples[i - 1].at and hour.hour % 4 == 0:
            share = (hour - samples[i - 1].at) / (sample.at - samples[i - 1].at)
            shown.append((hour, round(LEFT + step * (i + share), 1)))
    return shown
