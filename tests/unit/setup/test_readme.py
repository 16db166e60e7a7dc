"""The Python in README and in getting started is DAGs that Airflow takes as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from getting_started import GETTING_STARTED, README, REPOSITORY, python_blocks, shell_lines


@pytest.mark.parametrize("page", [README, GETTING_STARTED])
def test_the_first_dag_of_a_newcomer_parses(page: str, tmp_path: Path) -> None:
    from airflow_snowpack.airflow_versions import dag_bags

    blocks = python_blocks(page)
    assert blocks
    for place, block in enumerate(blocks):
        (tmp_path / f"example_{place}.py").write_text(block)
    bag = dag_bags().DagBag(tmp_path, bundle_path=tmp_path)
    assert bag.import_errors == {}
    assert set(bag.dags) == {"maintain_flights"}


def test_every_page_that_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (REPOSITORY / "README.md").read_text())
    assert links
    assert [link for link in links if "://" not in link and not (REPOSITORY / link).exists()] == []


def test_every_target_that_the_pages_name_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"(?:`|^ {4}|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert {"demo", "test"} <= named
    assert named <= targets


def test_every_command_of_getting_started_is_run_by_a_test() -> None:
    """A new command on the page needs a test that runs it, whose name then stands here."""
    postgres, examples = "tests/integration/cli/test_postgres_store.py", "tests/system/dags_test/test_examples.py"
    run_by = {
        "make demo": "tests/system/demo/test_demo_run.py",
        "make airflow": "tests/unit/setup/test_make_airflow.py",
        'export AIRFLOW_HOME="$PWD/.state/airflow" PATH="$PWD/.venv/bin:$PATH"': "tests/unit/setup/test_make_airflow.py",
        'make cluster PARTS="s3 rest"': "tests/integration/cluster/test_cluster.py",
        "airflow snowpack jobs submit demo.flights --dry-run": examples,
        "airflow snowpack jobs list": examples,
        "airflow snowpack tables show demo.flights": examples,
        "export AIRFLOW__SNOWPACK__STORE_CONN_ID=snowpack_store": postgres,
        "export AIRFLOW_CONN_SNOWPACK_STORE='postgres://snowpack:password@store-db/snowpack'": postgres,
        "airflow snowpack db upgrade": postgres,
        "sh docker/new_env.sh > .env": "tests/unit/setup/test_compose.py",
        "docker compose up --build --wait": "tests/system/test_compose_up.py",
    }
    by_hand = {
        "pip install --constraint constraints.txt '.[spark-provider]'",
        "pip install --constraint constraints.txt '.[spark-provider,jdk]'",
        "make cluster-demo",
    }
    assert {*shell_lines(GETTING_STARTED)} == {*run_by, *by_hand}
    assert [test for test in run_by.values() if not (REPOSITORY / test).exists()] == []
