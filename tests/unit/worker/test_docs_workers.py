"""The settings on the page about workers are those that a worker reads."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from airflow_snowpack.iceberg.catalog import POSTGRES_JDBC
from airflow_snowpack.settings import Settings
from airflow_snowpack.spark.runtimes import NEWEST
from airflow_snowpack.worker.__main__ import open_sparks, parser
from airflow_snowpack.worker.environment import Environment

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs/workers.md").read_text()


def block(language: str) -> str:
    """The first block of this language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def exported() -> dict[str, str]:
    words = [shlex.split(line) for line in block("bash").splitlines() if line.startswith("export ")]
    return dict(word.split("=", 1) for _export, word in words)


def from_file(tmp_path: Path) -> Environment:
    config = tmp_path / "worker.cfg"
    config.write_text(block("ini"))
    return Environment({}, config)


@pytest.mark.parametrize("source", ["environment", "file"])
def test_both_examples_name_the_same_store_and_catalog(source: str, tmp_path: Path) -> None:
    environment = Environment(exported()) if source == "environment" else from_file(tmp_path)
    settings = Settings.load(environment)

    assert settings.store_conn_id is not None
    store = environment.connection(settings.store_conn_id, "the store")
    assert (store.conn_type, store.host, store.schema) == ("postgres", "store-db", "snowpack")
    (catalog,) = [spark.catalog for spark in open_sparks(settings, environment)]
    assert (catalog.address, catalog.warehouse) == ("https://catalog.example.com", "lake")


@pytest.mark.parametrize("master", ["yarn", "k8s"])
def test_the_commands_of_spark_submit_ship_the_application_with_options_of_a_worker(master: str) -> None:
    (command,) = re.findall(rf"^(spark-submit --master {master}.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    submit, application, *options = re.split(r"(\S+snowpack_worker\.py)", command)
    words = shlex.split(submit.replace("\\\n", " "))
    given = dict(zip(words[1::2], words[2::2], strict=True))

    assert given["--deploy-mode"] == "cluster"
    assert given["--packages"] == f"{NEWEST.coordinates},{POSTGRES_JDBC}"
    assert (REPOSITORY / "docker/spark" / Path(application).name).is_file()
    assert parser().parse_args(shlex.split(options[0])).config is not None


def test_the_page_lists_every_option_with_its_default() -> None:
    actions = [action for action in parser()._actions if action.dest != "help"]
    rows = re.findall(r"^\| `(--[a-z-]+)", PAGE, re.MULTILINE)
    assert rows == [action.option_strings[0] for action in actions]
