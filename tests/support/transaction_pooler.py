"""A pooler of Postgres in a thread: each transaction of a client gets another session than the one before.

    with transaction_pooler(postgres_url) as url: ...          # as PgBouncer with pool_mode = transaction
    with transaction_pooler(postgres_url, statements=True)     # … = statement: a transaction with BEGIN is refused

It has as many sessions as :data:`SESSIONS` and hands them out in turns, so that whatever a client leaves in one is not there in
its next transaction: settings, prepared statements, temporary tables. As PgBouncer before 1.21, it prepares nothing for clients.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bounded import PATIENCE_S
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

SESSIONS = 3
ASKS_FOR_ENCRYPTION = {80877103, 80877104}
READY, BYE = b"Z", b"X"


class _Session:
    """A connection to Postgres."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def start(self, startup: bytes) -> bytes:
        """Begin as a client does, and return the parameters that Postgres tells it."""
        parameters = b""
        self.writer.write(startup)
        while (message := await read_message(self.reader))[:1] != READY:
            parameters += message if message[:1] == b"S" else b""
        return parameters


class Pooler:
    """Serves clients of one database."""

    def __init__(self, url: URL, *, statements: bool) -> None:
        self._url = url
        self._statements = statements
        self._free: asyncio.Queue[_Session] = asyncio.Queue()
        self._opened = 0
        self._parameters = b""
        self.sessions: list[_Session] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from its start to its end."""
        try:
            startup = await self._startup(reader, writer)
            await self._open_sessions(startup)
            key = b"K" + struct.pack("!III", 12, 1_000_000_000 + self._opened, 7)  # no session has such a number
            writer.write(b"R" + struct.pack("!II", 8, 0) + self._parameters + key + READY + struct.pack("!I", 5) + b"I")
            message = await read_message(reader)
            while message[:1] != BYE:
                message = await self._transaction(message, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()

    async def _startup(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        while True:
            length = await reader.readexactly(4)
            rest = await reader.readexactly(struct.unpack("!I", length)[0] - 4)
            if struct.unpack("!I", rest[:4])[0] not in ASKS_FOR_ENCRYPTION:
                return length + rest
            writer.write(b"N")

    async def _open_sessions(self, startup: bytes) -> None:
        while self._opened < SESSIONS:
            self._opened += 1
            session = _Session(*await asyncio.open_connection(self._url.host, self._url.port))
            self.sessions.append(session)
            self._parameters = await session.start(startup)
            self._free.put_nowait(session)

    async def _transaction(self, message: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """From a client's message to the moment at which its session is idle outside of a transaction; then its next message."""
        if self._statements and message[5:].upper().startswith(b"BEGIN"):
            text = b"SFATAL\0C08P01\0Mtransaction blocks not allowed in statement pooling mode\0\0"
            writer.write(b"E" + struct.pack("!I", len(text) + 4) + text)
            raise ConnectionError
        session = await self._free.get()
        more = asyncio.ensure_future(read_message(reader))
        waits_for = _answers(message)
        session.writer.write(message)
        answer = asyncio.ensure_future(read_message(session.reader))
        try:
            while True:
                await asyncio.wait({more, answer}, return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    said = answer.result()
                    writer.write(said)
                    waits_for -= said[:1] == READY
                    if said[:1] == READY and said[5:] == b"I" and not waits_for and not more.done():
                        break
                    answer = asyncio.ensure_future(read_message(session.reader))
                if more.done():
                    session.writer.write(more.result())
                    waits_for += _answers(more.result())
                    more = asyncio.ensure_future(read_message(reader))
        except asyncio.IncompleteReadError:  # the client left in the middle of a transaction, which ends with its session
            answer.cancel()
            session.writer.close()
            self._opened -= 1
            raise
        self._free.put_nowait(session)
        return await more


def _answers(message: bytes) -> int:
    """How many times the server says that it is ready, for a message."""
    return int(message[:1] in (b"Q", b"S"))


async def read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)


@contextmanager
def transaction_pooler(postgres_url: str, *, statements: bool = False) -> Iterator[str]:
    """The URL of the database behind such a pooler."""
    url = make_url(postgres_url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="pooler", daemon=True)
    thread.start()

    pooler = Pooler(url, statements=statements)

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(pooler.serve, "127.0.0.1", 0)

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(PATIENCE_S)

    async def end() -> None:
        server.close()
        for session in pooler.sessions:
            session.writer.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    try:
        yield url.set(port=server.sockets[0].getsockname()[1]).render_as_string(hide_password=False)
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
