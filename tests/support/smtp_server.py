"""A mail server on this machine that keeps what it receives, and can be killed and started again on its port.

with running_smtp() as server:
    server.port
    server.received      # the messages, as email.message.Message
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from typing import Any

ANSWERS = {"EHLO": "250 here", "HELO": "250 here", "QUIT": "221 bye", "DATA": "354 go on"}


class SmtpServer:
    """Answers as RFC 5321 requires of a server that accepts every mail."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.port = 0
        self._server: socketserver.ThreadingTCPServer | None = None

    def start(self) -> None:
        """Listen: on a free port, or on that of the last start."""
        received = self.received

        class Conversation(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 here\r\n")
                for line in self.rfile:
                    verb = line.decode().strip().upper().partition(" ")[0]
                    self.wfile.write(f"{ANSWERS.get(verb, '250 OK')}\r\n".encode())
                    if verb == "DATA":
                        received.append(message_from_bytes(b"".join(iter(self.rfile.readline, b".\r\n"))))
                        self.wfile.write(b"250 kept\r\n")

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        self._server = Server(("127.0.0.1", self.port), Conversation)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def kill(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def connection(self) -> dict[str, Any]:
        """Return the fields of an Airflow connection to it."""
        extra = {"disable_ssl": True, "disable_tls": True, "timeout": 60, "retry_limit": 0}
        return {"conn_type": "smtp", "host": "127.0.0.1", "port": self.port, "extra": extra}


@contextmanager
def running_smtp() -> Iterator[SmtpServer]:
    server = SmtpServer()
    server.start()
    try:
        yield server
    finally:
        server.kill()
