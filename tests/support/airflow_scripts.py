"""Runs a script in an Airflow of its own, whose database is in a folder.

found = run_in_airflow("airflow_answers.py", tmp_path, page_limit=10)      # the JSON that the script printed last
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parent


def run_in_airflow(script: str, folder: Path, *, page_limit: int) -> dict[str, Any]:
    """Return what a script of this folder printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    environment = inherited | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API__MAXIMUM_PAGE_LIMIT": str(page_limit),
        "PYTHONPATH": str(SUPPORT),
    }
    done = subprocess.run(
        [sys.executable, str(SUPPORT / script), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
