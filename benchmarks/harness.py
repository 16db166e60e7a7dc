"""Fair timing on a shared machine: what it costs in CPU, who else was busy, and when it was really done.

CPU is read from the process tree of this program and from that of Postgres, so that a job's cost hardly depends on
what else runs. The wall clock only counts while the machine is calm; ``foreign_cpu`` tells.

    drained = drain(server, contender, "bench_x", n=10_000, workers=4, durable=False)
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Self

import psutil
import psycopg

from benchmarks.postgres import Server
from benchmarks.results import Measurement

SPAWN = multiprocessing.get_context("spawn")
POLL_S = 0.05
SETTLE_S = 0.4
CALM = 0.25
CALM_WAIT_S = float(os.environ.get("SNOWPACK_BENCH_CALM_WAIT", "30"))


@dataclass(frozen=True)
class Signals:
    """How a worker process and the harness wait for each other."""

    ready: Event
    go: Event
    stop: Event


@dataclass(frozen=True, kw_only=True)
class Enqueuer:
    """Something that takes jobs in. The functions stand at module level, since other processes import them.

    :param create: makes its tables in an empty database.
    :param enqueue: connects, and inside of the meter enqueues n jobs one by one.
    :param share: what share of the jobs of the fastest it gets, to keep the time bearable.
    """

    name: str
    create: Callable[[str], None]
    enqueue: Callable[[str, int, Meter], None]
    share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Contender(Enqueuer):
    """A whole queue.

    :param fill: puts n no-op jobs into the queue.
    :param work: a worker: connects, sets ``ready``, waits for ``go``, and takes and finishes jobs until ``stop``.
    :param unfinished: SQL that gives a row as long as a job is not finished.
    """

    fill: Callable[[str, int], None]
    work: Callable[[Signals, str], None]
    unfinished: str


class Meter:
    """CPU of this program and the server, and of everybody else, while the block runs."""

    def __init__(self, server: Server | None = None) -> None:
        self._roots = [os.getpid(), *([server.process] if server and server.process else [])]

    def __enter__(self) -> Self:
        self._busy, self._own, self._began = _busy_seconds(), self._own_seconds(), time.monotonic()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.seconds = time.monotonic() - self._began
        self.own_cpu = self._own_seconds() - self._own
        self.foreign_cores = max(0.0, (_busy_seconds() - self._busy - self.own_cpu) / self.seconds)

    def _own_seconds(self) -> float:
        return sum(_tree_seconds(psutil.Process(root)) for root in self._roots)


def _tree_seconds(root: psutil.Process) -> float:
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def wait_calm() -> None:
    """Wait until the machine is mostly idle for two seconds; after a while go on, and let ``foreign_cpu`` tell."""
    until = time.monotonic() + CALM_WAIT_S
    while psutil.cpu_percent(interval=2) / 100 > CALM and time.monotonic() < until:
        time.sleep(2)


def drain(server: Server, contender: Contender, *, n: int, workers: int, durable: bool, round_: int) -> Measurement:
    """Let worker processes loose on a filled queue; the clock stops when the database has no unfinished job any more."""
    name = f"bench_{contender.name.lower()}"
    n = max(200, int(n * contender.share))
    url = server.fresh_database(name, durable=durable)
    contender.create(url)
    contender.fill(url, n)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")  # as a queue that has run for a while has it
    crew = [Signals(SPAWN.Event(), SPAWN.Event(), SPAWN.Event()) for _ in range(workers)]
    processes = [SPAWN.Process(target=contender.work, args=(signals, url), daemon=True) for signals in crew]
    for process in processes:
        process.start()
    try:
        for signals in crew:
            if not signals.ready.wait(90):
                raise RuntimeError(f"A worker of {contender.name} did not get ready within 90 s; see its output above.")
        wait_calm()
        commits = server.commits(name)
        with psycopg.connect(url, autocommit=True) as watcher, Meter(server) as meter:
            for signals in crew:
                signals.go.set()
            seconds, polls = _until_done(watcher, contender)
            time.sleep(SETTLE_S)  # what is written in batches, such as histories and logs, counts as well
    finally:
        for signals in crew:
            signals.go.set()
            signals.stop.set()
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
    time.sleep(0.3)  # backends hand in their counts when they end
    commits = server.commits(name) - commits - polls
    return Measurement(
        what="drain",
        contender=contender.name,
        n=n,
        seconds=round(seconds, 3),
        per_s=round(n / seconds, 1),
        cpu_us=round(meter.own_cpu / n * 1e6, 1),
        foreign_cpu=round(meter.foreign_cores, 2),
        setting={"workers": workers, "durable": durable, "round": round_},
        extra={"commits_per_job": round(commits / n, 2)},
    )


def _until_done(watcher: psycopg.Connection, contender: Contender, timeout_s: float = 600) -> tuple[float, int]:
    began, polls = time.monotonic(), 0
    while time.monotonic() - began < timeout_s:
        polls += 1
        if watcher.execute(contender.unfinished).fetchone() is None:
            return time.monotonic() - began, polls
        time.sleep(POLL_S)
    raise RuntimeError(f"{contender.name} was not done within {timeout_s:.0f} s.")


def enqueue(server: Server, contender: Enqueuer, *, n: int, durable: bool, round_: int) -> Measurement:
    """One client enqueues one job after the other, each in a commit of its own."""
    n = max(200, int(n * contender.share))
    url = server.fresh_database(f"bench_{contender.name.lower()}", durable=durable)
    contender.create(url)
    wait_calm()
    meter = Meter(server)
    contender.enqueue(url, n, meter)
    return Measurement(
        what="enqueue",
        contender=contender.name,
        n=n,
        seconds=round(meter.seconds, 3),
        per_s=round(n / meter.seconds, 1),
        cpu_us=round(meter.own_cpu / n * 1e6, 1),
        foreign_cpu=round(meter.foreign_cores, 2),
        setting={"durable": durable, "round": round_},
    )
