"""procrastinate, as its documentation starts a worker: one asynchronous worker a process, one job at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from benchmarks.harness import Contender, Meter, Signals


def _app(url: str) -> tuple[Any, Any]:
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=5))

    @app.task(name="noop", queue="default")
    async def noop(i: int) -> None: ...

    return app, noop


def create(url: str) -> None:
    async def apply() -> None:
        app, _ = _app(url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(apply())


def fill(url: str, n: int) -> None:
    async def defer() -> None:
        app, noop = _app(url)
        async with app.open_async():
            await noop.batch_defer_async(*[{"i": i} for i in range(n)])

    asyncio.run(defer())


def work(signals: Signals, url: str) -> None:
    logging.disable(logging.CRITICAL)

    async def run() -> None:
        app, _ = _app(url)
        async with app.open_async():
            signals.ready.set()
            await asyncio.to_thread(signals.go.wait)
            worker = asyncio.create_task(
                app.run_worker_async(concurrency=1, install_signal_handlers=False, fetch_job_polling_interval=0.5)
            )
            await asyncio.to_thread(signals.stop.wait)
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker

    asyncio.run(run())


def enqueue(url: str, n: int, meter: Meter) -> None:
    logging.disable(logging.INFO)

    async def defer() -> None:
        app, noop = _app(url)
        async with app.open_async():
            for i in range(20):
                await noop.defer_async(i=i)
            with meter:
                for i in range(n):
                    await noop.defer_async(i=i)

    asyncio.run(defer())


PROCRASTINATE = Contender(
    name="procrastinate",
    create=create,
    fill=fill,
    work=work,
    enqueue=enqueue,
    unfinished="SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1",
    share=0.2,
)
