"""PGQueuer on asyncpg, the faster of its drivers, with one job a claim. It writes its log in batches of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from benchmarks.harness import Contender, Meter, Signals


async def _driver(url: str) -> Any:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver

    return AsyncpgDriver(await asyncpg.connect(url))


async def _queries(url: str) -> Any:
    from pgqueuer.queries import Queries

    return Queries(await _driver(url))


def create(url: str) -> None:
    async def install() -> None:
        await (await _queries(url)).install()

    asyncio.run(install())


def fill(url: str, n: int) -> None:
    async def put() -> None:
        await (await _queries(url)).enqueue(["noop"] * n, [b"{}"] * n, [0] * n)

    asyncio.run(put())


def work(signals: Signals, url: str) -> None:
    logging.disable(logging.CRITICAL)

    async def run() -> None:
        from pgqueuer import PgQueuer

        queuer = PgQueuer(await _driver(url))

        @queuer.entrypoint("noop")
        async def noop(job: Any) -> None: ...

        signals.ready.set()
        await asyncio.to_thread(signals.go.wait)
        worker = asyncio.create_task(queuer.run(batch_size=1, max_concurrent_tasks=20))
        await asyncio.to_thread(signals.stop.wait)
        queuer.shutdown.set()
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker

    asyncio.run(run())


def enqueue(url: str, n: int, meter: Meter) -> None:
    async def put() -> None:
        queries = await _queries(url)
        for _ in range(20):
            await queries.enqueue("noop", b"{}", 0)
        with meter:
            for _ in range(n):
                await queries.enqueue("noop", b"{}", 0)

    asyncio.run(put())


PGQUEUER = Contender(
    name="pgqueuer",
    create=create,
    fill=fill,
    work=work,
    enqueue=enqueue,
    unfinished="SELECT 1 FROM pgqueuer LIMIT 1",
    share=0.2,
)
