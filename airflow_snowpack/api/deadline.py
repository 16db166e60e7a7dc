"""No answer takes longer than this, whatever hangs behind it.

The store and the catalog have their own limits and their own words for it. This is the net below them: a request that is still
not answered gets a 503, and what it started goes on and answers nobody.

    app.add_middleware(Deadline, limit=timedelta(seconds=4.5))
"""

import asyncio
from datetime import timedelta

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_snowpack.api.problems import STORE_RETRY_AFTER_S, problem

SHARE = 0.9
"""Of the time that a request may take: the answer still has to be sent."""


class Deadline:
    """Answers for the app when it does not.

    :param limit: counts from when the request has arrived whole, so that a slow sender is not told that we are slow.
    """

    def __init__(self, app: ASGIApp, limit: timedelta) -> None:
        self._app = app
        self._limit = limit.total_seconds()
        self._forgotten: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(receive, send)
        # A task of its own, not a cancel scope: a handler's thread cannot be cancelled, and cancelling would wait for it.
        task = asyncio.ensure_future(self._app(scope, answer.receive, answer.send))
        try:
            await self._wait(task, answer)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            task.result()
            return
        answer.taken_over = True
        self._forgotten.add(task)
        task.add_done_callback(self._forget)
        await _too_slow(self._limit)(scope, receive, send)

    async def _wait(self, task: asyncio.Future[None], answer: "_Answer") -> None:
        """Until the task is done, or nothing was answered for too long."""
        while True:
            await asyncio.wait((task,), timeout=self._limit)
            if task.done() or (answer.arrived and not answer.begun):
                return

    def _forget(self, task: asyncio.Future[None]) -> None:
        self._forgotten.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it; the layer of problems has logged it


class _Answer:
    """What the app sends, until somebody else answers for it."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.arrived = True
        self.begun = False
        self.taken_over = False

    async def receive(self) -> Message:
        self.arrived = False
        message = await self._receive()
        self.arrived = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.taken_over:
            return
        self.begun = True
        await self._send(message)


def _too_slow(limit: float) -> ASGIApp:
    detail = (
        f"There was no answer within {limit:g} s: the store or the catalog hangs, or too much is asked at once. "
        "What was asked for may still happen; look before you ask again, or send an Idempotency-Key with it. "
        "If it is always slow, raise [snowpack] request_timeout."
    )
    return problem(503, "too_slow", "No answer in time", detail, headers={"Retry-After": str(STORE_RETRY_AFTER_S)})
