"""Questions before what cannot be undone, as Airflow's own commands ask them.

confirm("Cancel job 3f2a…?", yes=args.yes)
"""

from __future__ import annotations

import sys

from airflow_snowpack.cli.errors import Declined, Unconfirmed


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless ``--yes`` was said.

    The question goes to stderr, so that stdout has the command's output and nothing else.

    :raises Declined: the answer was not yes.
    :raises Unconfirmed: there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Unconfirmed(question)
    print(f"{question} (y/n) ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Declined
