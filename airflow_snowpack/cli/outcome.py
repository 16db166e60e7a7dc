"""How a command ends: with an exit code, and for an error of the package with its message in place of a traceback."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import wraps

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.exit_code import ExitCode, code_of


def ends_cleanly(command: Callable[[Namespace], ExitCode | None]) -> Callable[[Namespace], None]:
    """Make a command read connections like Airflow's own commands, and print the package's errors without a traceback."""

    @wraps(command)
    def run(args: Namespace) -> None:
        # Without it the Task SDK looks for connections in the environment only, and not in Airflow's database.
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        code = _outcome(command, args)
        if code:
            sys.exit(int(code))

    return run


def _outcome(command: Callable[[Namespace], ExitCode | None], args: Namespace) -> int | None:
    try:
        code = command(args)
        sys.stdout.flush()
    except SnowpackError as problem:
        print(problem, *getattr(problem, "__notes__", ()), sep="\n", file=sys.stderr)
        return code_of(problem)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of the output, such as `head`, has exited. Discard the buffer, or Python reports an error at its end. rich
        # uses the same code when it prints a table.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.REFUSED
    return code
