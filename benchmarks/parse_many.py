"""What a file with one DAG for each of 1,000 tables costs to parse and serialize, beside a file with 1,000 plain DAGs.

Both are parsed in forks of the DAG processor and in processes of their own. The tables are those of a stored inventory; 100 rules
match them. The first parse reads the store, the others the names that it kept.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.parse_forks import cpu_of_parses
from benchmarks.results import Finding, Results

TABLES, DATABASES = 1_000, 100
AT_MOST = 1.3
LEAST_ROUNDS = 5
PLAIN = f"""
from airflow.sdk import DAG, Asset, BaseOperator
for number in range({TABLES}):
    table = f"db_{{number % {DATABASES}}}.t_{{number}}"
    with DAG(f"plain.{{table}}", schedule="@daily", catchup=False, max_active_runs=1, tags=["snowpack", "maintenance"]):
        BaseOperator(task_id="maintain", outlets=[Asset("iceberg://lake/" + table.replace(".", "/"))])
"""
OURS = """
from airflow_snowpack.per_table_dags import per_table_dags
per_table_dags("policies.yaml")
"""
INVENTORY = f"""
from airflow_snowpack.hooks import IcebergCatalogHook, SnowpackHook
from airflow_snowpack.inventory import Inventory

class Listing:
    name = "lake"

    def list_namespaces(self, below):
        return [] if below else [(f"db_{{number}}",) for number in range({DATABASES})]

    def list_tables(self, namespace):
        first = int(namespace[0].removeprefix("db_"))
        return [(*namespace, f"t_{{number}}") for number in range(first, {TABLES}, {DATABASES})]

catalog_id = IcebergCatalogHook().config.catalog_id
with SnowpackHook() as hook:
    assert Inventory(hook.store(), "lake", Listing, lambda: catalog_id).refresh().tables == {TABLES}
"""
RULE = """
  - tables: db_{number}.*
    cadence: {hours}h
    actions:
      expire_snapshots: {{deadline: 7d, options: {{max_age: 10d}}}}
"""
PARSE = """
import sys, time
from pathlib import Path
import structlog
from airflow.dag_processing import manager, processor
began = time.process_time()
request = processor.DagFileParseRequest(file=sys.argv[1], bundle_path=Path(sys.argv[1]).parent, bundle_name="bench")
parsed = processor._parse_file(request, structlog.get_logger())
assert len(parsed.serialized_dags) == int(sys.argv[2]) and not parsed.import_errors, parsed.import_errors
print(time.process_time() - began)
"""


def run(results: Results, environment: Mapping[str, str], folder: Path, *, rounds: int) -> None:
    """Compare both files.

    :param environment: of a fresh Airflow; ``folder``: where the files are written.
    """
    files = _write(folder)
    _python(INVENTORY, environment)
    rounds = max(rounds, LEAST_ROUNDS)
    what = f"CPU to parse {TABLES:,} DAGs of per_table_dags / {TABLES:,} plain DAGs"
    _find(results, f"{what}, in a fork of the DAG processor", *cpu_of_parses(files, environment, rounds, dags=TABLES))
    pairs = [[float(_python(PARSE, environment, file, str(TABLES))) for file in files] for _ in range(rounds)]
    _find(results, f"{what}, in a process of its own", *zip(*pairs, strict=True))


def _write(folder: Path) -> list[str]:
    folder.mkdir()
    rules = "".join(RULE.format(number=number, hours=number + 1) for number in range(DATABASES))
    (folder / "policies.yaml").write_text(f"rules:{rules}")
    for name, source in (("plain.py", PLAIN), ("ours.py", OURS)):
        (folder / name).write_text(source)
    return [str(folder / "plain.py"), str(folder / "ours.py")]


def _find(results: Results, what: str, plain: tuple[float, ...], ours: tuple[float, ...]) -> None:
    ratio = statistics.median(mine / base for base, mine in zip(plain, ours, strict=True))
    says = f"{statistics.median(ours):.2f} s : {statistics.median(plain):.2f} s, {len(plain)} pairs"
    results.find(Finding(what, ratio, at_most=AT_MOST, says=says))


def _python(source: str, environment: Mapping[str, str], *arguments: str) -> str:
    command = [sys.executable, "-c", source, *arguments]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"It failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return (done.stdout.strip().splitlines() or [""])[-1]
