"""A client that costs little, so that the server is what is measured: blocking sockets that are kept open, one for each thread.

answers = ask(port, [request(…), …], connections=8)      # seconds of each answer, all of them with the expected status
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain


def request(method: str, path: str, *, token: str | None = None, body: bytes = b"") -> bytes:
    """One request, whole."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json"] if body else []
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask(port: int, requests: list[bytes], *, status: int, connections: int = 1) -> list[float]:
    """Send them all, each connection one after the other; gives the seconds of each.

    :raises RuntimeError: an answer has another status.
    """
    shares = [requests[place::connections] for place in range(connections)]
    with ThreadPoolExecutor(connections) as pool:
        return [*chain.from_iterable(pool.map(lambda share: _ask_in_turn(port, share, status), shares))]


def _ask_in_turn(port: int, requests: list[bytes], status: int) -> list[float]:
    expected = f"HTTP/1.1 {status}".encode()
    seconds = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for each in requests:
            began = time.perf_counter()
            connection.sendall(each)
            answer = _read(connection)
            seconds.append(time.perf_counter() - began)
            if not answer.startswith(expected):
                raise RuntimeError(f"The server answered {answer[:300]!r}.")
    return seconds


def _read(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += _more(connection)
    return head


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(262_144)
    if not data:
        raise RuntimeError("The server closed the connection.")
    return data
