"""``python -m examples.demo``, which is ``make demo``.

The exit code is 0 only if the job completed and every row is what it was. The last line of the output is JSON.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from airflow_snowpack.errors import SnowpackError
from examples.demo.folder import fresh_folder
from examples.demo.local_airflow import LocalAirflow
from examples.demo.run import WHOLE_YEAR, Demo
from examples.demo.wear import set_modified

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).parents[2]
WIDTH_OF_A_LOG = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="make demo", description="A fragmented Iceberg table becomes healthy through an Airflow DAG."
    )
    parser.add_argument("--days", type=int, default=WHOLE_YEAR, choices=range(1, WHOLE_YEAR + 1), metavar="1..365")
    parser.add_argument("--home", type=Path, default=REPOSITORY / ".state" / "demo", help="a folder, emptied first")
    given = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_LOG)
    try:
        with fresh_folder(given.home.absolute()) as home:
            airflow = LocalAirflow(home / "airflow", REPOSITORY / "dags")
            outcome = Demo(home, given.days, console, airflow, set_modified).run()
    except SnowpackError as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1
    print(outcome.to_json(), flush=True)
    # It is the last line, whatever libraries print while the process ends.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
