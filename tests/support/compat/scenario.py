"""What a user does with the package, from the first job to the page: `make compat` compares what it gives on each version.

python tests/support/compat/scenario.py FOLDER RESULT    # an empty folder; writes {step: result} as JSON

The results have rows, states and messages. What differs at each run (ids, times, durations, sizes of files) is replaced.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]
DAG_FILE = Path(__file__).with_name("compat_dag.py")
LIMIT_S = 900
TOKEN = "0123456789abcdef"
PAGES = ("/ui/tables", "/ui/jobs", "/ui/schedules", "/ui/builds", "/ui/no")
SCHEDULE = {
    "name": "nightly",
    "dag_id": "compat",
    "trigger": {"custom_events": {"name": "arrived", "count": 2}},
    "constraints": [{"max_concurrent": {"limit": 1}}],
    "enabled": True,
}
REPLACED = (
    (r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|\b[0-9a-f]{12}\b|\b[0-9a-f]{8}\b", "ID"),
    (r"\d{8}T\d{6}Z|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z|[+-]\d\d:?\d\d)?", "TIME"),
    (r"\b\d+(\.\d+)? (ms|s|min|h|d)( \d+ (s|min|h))?(?!\w)", "DURATION"),
    (r"\b\d+(\.\d+)? ([KMG]i)?B\b|\b\d+ bytes\b", "SIZE"),
    (r"\bon [\w.-]+:\d+", "on HOST"),
    (r"\bjust now\b", "DURATION ago"),
    (r"/[\w./-]*/snowpack-compat-\w+/home", "HOME"),
    (r"\b\d{15,}\b|(?<=_)[0-9a-f]{20}\b", "ID"),
)
OF_RUNS = re.compile(r"(^|_)(id|at|since|bytes|bytes_count|seconds|gb_hours|ms|host|holder|pid|by|instance|actor|url)$")


def main(folder: Path, result: Path) -> None:
    """Run the steps in the order in which a newcomer takes them."""
    environ = {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
    }
    os.environ |= environ | {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    sys.path.insert(0, str(REPOSITORY))
    steps = (airflow, tables, first_jobs, dags, jobs_after, rows, builds, interim, schedules, pages)
    done: dict[str, Any] = {}
    for step in steps:
        done[step.__name__] = without_chance(step(folder))
    result.write_text(json.dumps(done, indent=1, sort_keys=True) + "\n")


def without_chance(value: Any) -> Any:
    """Return a result without what differs from run to run on one version."""
    if isinstance(value, dict):
        return {key: without_chance(each) for key, each in value.items() if not OF_RUNS.search(key)}
    if isinstance(value, list):
        # Whether a job had a heartbeat depends on how long it took.
        return [without_chance(each) for each in value if not (isinstance(each, dict) and each.get("event") == "heartbeat")]
    if isinstance(value, str):
        for pattern, name in REPLACED:
            value = re.sub(pattern, name, value)
    return value


def snowpack(*arguments: str) -> dict[str, Any]:
    """Return the exit code of a command, and what it printed."""
    from airflow_snowpack.cli.console import main as command

    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            command(arguments)
        except SystemExit as ended:
            code = ended.code or 0
    printed = out.getvalue()
    said = [line for line in err.getvalue().splitlines() if " [" not in line]  # without Airflow's log
    return {"code": code, "out": json.loads(printed) if "json" in arguments and printed else printed, "err": said}


def run_airflow(*arguments: str) -> str:
    """Return what a command of Airflow printed."""
    called = [sys.executable, "-m", "airflow", *arguments]
    done = subprocess.run(called, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout + done.stderr


def airflow(_: Path) -> Any:
    run_airflow("db", "migrate")
    return snowpack("db", "upgrade")["code"]


def tables(_: Path) -> Any:
    from airflow_snowpack.hooks import IcebergCatalogHook
    from examples.demo.tables import make_tables

    return make_tables(IcebergCatalogHook().catalog, "lake")


def first_jobs(_: Path) -> Any:
    """A preview, a job that is cancelled, and what is refused."""
    done = [snowpack("jobs", "submit", "demo.flights", "--dry-run", "-o", "json")]
    done += [snowpack("jobs", "submit", "demo.airports", "-a", "rewrite_data_files", "-o", "json")]
    job = done[-1]["out"]["job_id"]
    done += [snowpack("jobs", "submit", "demo.airports", "-a", "rewrite_manifests")]
    done += [snowpack("jobs", "cancel", job, "--yes", "-o", "json") for _ in range(2)]
    done += [snowpack("jobs", "submit", "demo.nothing"), snowpack("jobs", "submit", "demo.flights", "-a", "vacuum")]
    options = '{"rewrite_data_files": {"target_file_size_bytes": 0}}'
    return [*done, snowpack("jobs", "submit", "demo.flights", "--options", options)]


def dags(folder: Path) -> Any:
    """The five actions on a table with small files, deletes, old snapshots and an orphan; interim tables; a build."""
    (folder / "dags").mkdir()
    file = shutil.copy(DAG_FILE, folder / "dags")
    said = run_airflow("dags", "test", "compat", "--dagfile-path", str(file))
    return re.findall(r"Marking run <DagRun ([a-z_]+) .*?> (successful|failed)", said)


def jobs_after(_: Path) -> Any:
    jobs = snowpack("jobs", "list", "--all", "-o", "json")
    ids = [each["job_id"] for each in jobs["out"]]
    return {"list": jobs, "shown": [snowpack("jobs", "show", each, "-o", "json") for each in ids]}


def rows(_: Path) -> Any:
    from airflow_snowpack.hooks import IcebergCatalogHook

    catalog = IcebergCatalogHook().catalog
    counted = catalog.load_table(("demo", "flights")).scan(selected_fields=("distance", "carrier")).to_arrow()
    return {"rows": counted.num_rows, "distance": sum(filter(None, counted["distance"].to_pylist()))}


def builds(_: Path) -> Any:
    from airflow_snowpack.builds import SnapshotReader
    from airflow_snowpack.hooks import BuildStorageHook

    hook, listed = BuildStorageHook(), snowpack("builds", "list", "-o", "json")
    if not listed["out"]["datasets"]:
        return listed
    with SnapshotReader(hook.storage(hook.url_of("miles_by_tail"))) as planes:
        found = {name: str(value) for name, value in (planes.get("N14228") or {}).items()}
    return {"found": found, "list": listed}


def interim(_: Path) -> Any:
    return snowpack("interim", "list", "-o", "json")


def schedules(folder: Path) -> Any:
    file = folder / "nightly.json"
    file.write_text(json.dumps(SCHEDULE))
    send = ("events", "send", "arrived", "-o", "json")
    commands = (
        *(("schedules", "create", str(file)), ("schedules", "create", str(file)), send, send),
        *(
            ("schedules", "list", "-o", "json"),
            ("schedules", "explain", "nightly", "-o", "json"),
            ("pending", "list", "-o", "json"),
        ),
        ("schedules", "suspend", "nightly"),
    )
    return [snowpack(*command) for command in commands]


def pages(_: Path) -> Any:
    from functools import partial

    import httpx

    from airflow_snowpack.api import TokenAuth, build_app
    from airflow_snowpack.hooks.services import open_services

    app = build_app(partial(open_services), TokenAuth(TOKEN))

    async def ask() -> dict[str, Any]:
        transport = httpx.ASGITransport(app=app)
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/html"}
        async with httpx.AsyncClient(transport=transport, base_url="http://snowpack.test", headers=headers) as client:
            return dict([await _read(client, path) for path in PAGES])

    return asyncio.run(ask())


async def _read(client: Any, path: str) -> tuple[str, Any]:
    answer = await client.get(path)
    return path, {"status": answer.status_code, "words": list(_cells(answer.text))}


def _cells(page: str) -> Iterator[str]:
    """Yield what a person reads in the headings and the rows of a list."""
    for part in re.findall(r"(?s)<(?:h1|h2|tr)\b.*?</(?:h1|h2|tr)>", page):
        yield " ".join(re.sub(r"<[^>]+>", " ", part).split())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
