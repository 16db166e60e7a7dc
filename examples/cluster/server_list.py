"""The list of what runs: addresses, processes and their memory.

show_servers(Console(), cluster.parts)
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
from rich import box
from rich.table import Table

from airflow_snowpack.humanize import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from examples.cluster.part import Part


def show_part(console: Console, part: Part) -> None:
    """Print that a part is ready, at once also into a file."""
    console.print(f"{part.name} is ready")
    console.file.flush()


def show_missing_part(console: Console, part: type[Part], error: Exception) -> None:
    """Print why a part did not start."""
    console.print(f"{part.name} is missing: {error}")
    console.file.flush()


def show_servers(console: Console, parts: Sequence[Part]) -> None:
    """Print the addresses, the processes and their memory."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("part", "address", "process"):
        table.add_column(heading, overflow="fold")
    table.add_column("pid", justify="right")
    table.add_column("memory", justify="right")
    total = 0
    for part in parts:
        addresses = "\n".join(f"{purpose}: {address}" for purpose, address in part.addresses.items())
        memory = [memory_of(server.pid) for server in part.servers]
        total += sum(memory)
        cells = [[server.name, str(server.pid), size(used)] for server, used in zip(part.servers, memory, strict=True)]
        table.add_row(part.name, addresses, *("\n".join(column) for column in zip(*cells, strict=True)), end_section=True)
    table.add_row("", "", "", "", size(total))
    console.print(table)
    console.file.flush()


def memory_of(pid: int) -> int:
    """Return the resident memory of a process and of everything below it, in bytes."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += each.memory_info().rss
    return total
