"""The log of a build: its end is kept, without secrets.

    log = BuildLog(on_line, secrets=source.build_args.values())
    log.add("STEP 1/2: FROM scratch")
    log.text()

The invariant: no line with the value of a build argument or a credential leaves it, neither to the task log nor to the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from airflow_snowpack.redaction import redacted

MAX_STORED = 64 * 1024
"""Characters of the log that the store keeps."""


class BuildLog:
    """Collects lines.

    :param on_line: receives each line without secrets.
    :param secrets: what is hidden; of a multi-line secret, each line.
    """

    def __init__(self, on_line: Callable[[str], None], secrets: Iterable[str | None] = ()) -> None:
        self._on_line = on_line
        self._secrets = tuple({line for secret in secrets if secret for line in (secret, *secret.splitlines())})
        self._lines: deque[str] = deque()
        self._size = 0
        self._dropped = 0

    def add(self, line: str) -> None:
        line = self.redacted(line)
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size > MAX_STORED and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1
            self._dropped += 1
        self._on_line(line)

    def redacted(self, text: str) -> str:
        return redacted(text, self._secrets)

    def text(self) -> str:
        """Return the end of the log; its first line is the number of lines before it."""
        before = [f"[{self._dropped} earlier lines were dropped]"] if self._dropped else []
        return "\n".join([*before, *self._lines])[-MAX_STORED - 100 :]
