"""``python -m examples.cluster [PART …]``, which is ``make cluster``: start parts, show where they are, run until stopped.

Ctrl-C or ``.venv/bin/python -m examples.cluster stop`` in another terminal stops all of them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from airflow_snowpack.errors import SnowpackError
from examples.cluster.cluster import Cluster, stop_cluster
from examples.cluster.parts import PARTS, parts_in_order
from examples.cluster.server_list import show_missing_part, show_part, show_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

HOME = Path(__file__).parents[2] / ".state" / "cluster"
STOP = "stop"
WIDTH_OF_A_LOG = 160


def main(arguments: Sequence[str] | None = None) -> int:
    """Start or stop the cluster; return the exit code."""
    parser = argparse.ArgumentParser(prog="make cluster", description="The production shape as plain processes on this machine.")
    parser.add_argument(
        "parts", nargs="*", help=f"{', '.join(PARTS)}, with what they need; by default all. {STOP}: stop a running cluster"
    )
    parser.add_argument("--home", type=Path, default=HOME, help="the folder of databases, buckets and logs, emptied first")
    given = parser.parse_args(arguments)
    home = given.home.absolute()
    try:
        return stop(home) if given.parts == [STOP] else run(home, given.parts or list(PARTS))
    except SnowpackError as error:
        print(error, file=sys.stderr)
        return 1


def run(home: Path, names: Sequence[str]) -> int:
    """Run the parts until this process is interrupted or terminated, or one of them ends."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_LOG)
    kinds = parts_in_order(names)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Cluster(home).started(kinds, partial(show_part, console), partial(show_missing_part, console)) as cluster:
            if not cluster.parts:
                return 1
            show_servers(console, cluster.parts)
            console.print(
                f"Logs and data: {home}\nStop with Ctrl-C, or: .venv/bin/python -m examples.cluster stop", soft_wrap=True
            )
            while all(server.is_running for server in cluster.servers):
                time.sleep(1)
            ended = ", ".join(server.name for server in cluster.servers if not server.is_running)
            console.print(f"{ended} has ended. See its log.")
            return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 0


def stop(home: Path) -> int:
    """Stop the cluster that another process has started."""
    stopped = stop_cluster(home)
    print(f"Stopped: {', '.join(stopped)}." if stopped else f"No cluster runs in {home}.")
    return 0


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
