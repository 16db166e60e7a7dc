"""How a command begins and ends: an expected problem is one sentence on stderr and exit code 1, anything else a traceback."""

from __future__ import annotations

import os
import sys
from functools import wraps
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable


def ends_cleanly(command: Callable[[Namespace], None]) -> Callable[[Namespace], None]:
    """Make a command read connections as Airflow's own commands do, and say what the package's errors say without a traceback."""

    @wraps(command)
    def run(args: Namespace) -> None:
        # Without it the Task SDK looks for connections in the environment only, and not in Airflow's database.
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        try:
            command(args)
        except SnowpackError as problem:
            print(problem, file=sys.stderr)
            sys.exit(1)

    return run
