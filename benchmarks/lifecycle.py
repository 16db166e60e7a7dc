"""The job lifecycle beside a hand-written loop and beside other queues on Postgres; no-op work, one job a claim.

oban-py is left out: it needs Python 3.12, and this package runs on 3.11 as well.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.contenders.dbos_peer import DBOS
from benchmarks.contenders.handwritten import HANDWRITTEN, HANDWRITTEN_AT_ONCE, HANDWRITTEN_SUBMIT
from benchmarks.contenders.ours import OURS
from benchmarks.contenders.pgqueuer_peer import PGQUEUER
from benchmarks.contenders.procrastinate_peer import PROCRASTINATE
from benchmarks.harness import Contender, Enqueuer, drain, enqueue
from benchmarks.postgres import Server
from benchmarks.results import Finding, Results

PEERS = [PROCRASTINATE, PGQUEUER, DBOS]
JOBS = 10_000
ENQUEUES = 5_000
WORKERS = [1, 4]
AT_MOST = 2.5


def run(server: Server, results: Results, *, rounds: int, peers: bool = True) -> None:
    others = PEERS if peers else []
    for durable in (False, True):
        for round_ in range(rounds):
            # Alternating, so that a slow minute of the machine falls on both; the peers are far off and run once.
            both = [HANDWRITTEN, OURS, *(others if round_ == 0 else [])]
            for contender in [HANDWRITTEN_AT_ONCE, HANDWRITTEN_SUBMIT, *both]:
                results.add(enqueue(server, contender, n=ENQUEUES, durable=durable, round_=round_))
            for contender in both:
                for workers in WORKERS:
                    results.add(drain(server, contender, n=JOBS, workers=workers, durable=durable, round_=round_))
    for durable in (False, True):
        _compare(results, "enqueue", "submit (lock + job + queue row)", HANDWRITTEN_SUBMIT, others, durable=durable)
        _compare_in_one_statement(results, durable=durable)
        _compare_with_single_insert(results, durable=durable)
        for workers in WORKERS:
            title = f"claim + finish (fenced, unlocks), {workers} worker{'s' if workers > 1 else ''}"
            _compare(results, "drain", title, HANDWRITTEN, others, durable=durable, workers=workers)


def _compare(results: Results, what: str, title: str, limit: Enqueuer, peers: list[Contender], **setting: Any) -> None:
    """In CPU a job and in seconds a job, against what is written by hand and against the best of the peers."""
    durable = "durable" if setting["durable"] else "not durable"
    for figure, unit in (("cpu_us", "CPU"), ("per_s", "wall")):
        cost = partial(_cost, results, figure, what, setting)
        ours = cost(OURS)
        says = f"{ours:,.0f} µs : {cost(limit):,.0f} µs"
        ratio = ours / cost(limit)
        results.find(Finding(f"{title}, {durable}, {unit}: ours / hand-written", ratio, at_most=AT_MOST, says=says))
        if peers:
            best = min(peers, key=cost)
            says = f"{ours:,.0f} µs : {cost(best):,.0f} µs ({best.name})"
            results.find(Finding(f"{title}, {durable}, {unit}: ours / best peer", ours / cost(best), at_most=1.0, says=says))


def _compare_in_one_statement(results: Results, *, durable: bool) -> None:
    """Ours is one statement and a transaction of its own, so the fair peer is the same three rows in one statement."""
    for figure, unit in (("cpu_us", "CPU"), ("per_s", "wall")):
        ours, once = (_cost(results, figure, "enqueue", {"durable": durable}, each) for each in (OURS, HANDWRITTEN_AT_ONCE))
        title = f"submit, {'durable' if durable else 'not durable'}, {unit}: ours / the same three rows by hand in one statement"
        results.find(Finding(title, ours / once, at_most=AT_MOST, says=f"{ours:,.0f} µs : {once:,.0f} µs"))


def _compare_with_single_insert(results: Results, *, durable: bool) -> None:
    """One row without a lock is less than a submit does; it is the least that an enqueue by hand can be."""
    ours, single = (_cost(results, "cpu_us", "enqueue", {"durable": durable}, each) for each in (OURS, HANDWRITTEN))
    title = f"submit, {'durable' if durable else 'not durable'}, CPU: ours / one INSERT by hand, without a lock"
    results.find(Finding(title, ours / single, at_most=AT_MOST, says=f"{ours:,.0f} µs : {single:,.0f} µs"))


def _cost(results: Results, figure: str, what: str, setting: dict[str, Any], contender: Enqueuer) -> float:
    """Microseconds a job, of CPU or of time."""
    value = results.median(figure, what, contender.name, **setting)
    return value if figure == "cpu_us" else 1e6 / value
