"""What ``make airflow`` runs, and with which environment; its programs are recorded and not started.

commands = made_airflow(folder, port=9191)
commands[-1].arguments                      # ["airflow", "standalone"]
commands[-1].environment["AIRFLOW__API__PORT"]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
RECORDER = """#!{python} -S
import json, os, sys
with open({log!r}, "a") as log:
    print(json.dumps([[os.path.basename(sys.argv[0]), *sys.argv[1:]], dict(os.environ)]), file=log)
"""


@dataclass(frozen=True)
class Command:
    """A program that make ran: its arguments, and the variables of Airflow in its environment."""

    arguments: list[str]
    environment: dict[str, str]


def made_airflow(folder: Path, port: int | None = None) -> list[Command]:
    """Run ``make airflow`` with recorders in the place of Python and Airflow.

    :param folder: where the recorders are put; it becomes AIRFLOW_HOME.
    :param port: given as ``PORT=…``.
    """
    log, programs = folder / "commands.jsonl", folder / "bin"
    programs.mkdir()
    for name in ("python", "airflow"):
        (programs / name).write_text(RECORDER.format(python=sys.executable, log=str(log)))
        (programs / name).chmod(0o755)
    ours = ("AIRFLOW", "_AIRFLOW", "MAKE", "PORT")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # -o: the environment of this run is there, and not make's to bring up to date.
    command = ["make", "-o", ".venv/.ready", "airflow", f"BIN={programs}", f"AIRFLOW_HOME={folder}"]
    command += [f"PORT={port}"] if port else []
    subprocess.run(command, cwd=REPOSITORY, env=inherited, check=True, capture_output=True)
    recorded = [json.loads(line) for line in log.read_text().splitlines()]
    return [Command(each, {name: value for name, value in env.items() if name.startswith("AIRFLOW")}) for each, env in recorded]
