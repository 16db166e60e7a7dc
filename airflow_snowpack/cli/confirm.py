"""Prompts before changes that cannot be undone, as in Airflow's own commands.

confirm("Cancel job 3f2a…?", yes=args.yes)
"""

from __future__ import annotations

import sys

from airflow_snowpack.cli.errors import Declined, Unconfirmed


def confirm(question: str, *, yes: bool) -> None:
    """Require a confirmation, unless ``--yes`` was passed. The prompt goes to stderr.

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
