"""The names of interim tables, the rules of finished tasks, and the docs that tell of both."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.collection.dropping import Folder
from airflow_snowpack.interim.collection.model import DagRunState, RunPhase
from airflow_snowpack.interim.errors import InvalidInterimTable
from airflow_snowpack.interim.model import TRANSITIONS, OutputOptions
from airflow_snowpack.interim.names import MAX_LENGTH, Producer, is_ours, table_name_of
from airflow_snowpack.interim.registry import check_options

DOCS = Path(__file__).parents[3] / "docs" / "interim-tables.md"


@given(st.text(max_size=250), st.text(max_size=250))
def test_every_dag_and_task_gets_a_recognisable_name(dag_id: str, task_id: str) -> None:
    name = table_name_of(Producer(dag_id, "run", task_id), uuid4().hex)

    assert is_ours(name)
    assert len(name) <= MAX_LENGTH
    assert TableName("lake", "snowpack_interim", name).table == name
    assert not name.startswith("_")


@pytest.mark.parametrize(
    "name",
    [
        "flights",
        "flights_clean_5f0c3a9e4b7d",
        "flights_clean_5f0c3a9e4b7d0c21a8f6",  # no uuid4: its 13th digit
        "flights_clean_5f0c3a9e4b7d4c21c8f6",  # no uuid4: its 17th digit
        "Flights_clean_5f0c3a9e4b7d4c21a8f6",
        "_clean_5f0c3a9e4b7d4c21a8f6",
        "a/b_5f0c3a9e4b7d4c21a8f6",
        "flights_clean_5f0c3a9e4b7d4c21a8f6\n",
        "5f0c3a9e4b7d4c21a8f6",
        "",
    ],
)
def test_what_others_have_named_is_not_ours(name: str) -> None:
    assert not is_ours(name)
    assert not Folder(f"s3://lake/snowpack_interim/{name}").is_own_of(name)


def test_a_folder_is_a_tables_own_by_its_last_part_alone() -> None:
    name = "flights_clean_5f0c3a9e4b7d4c21a8f6"

    for location in (f"s3://lake/x/{name}", f"s3a://lake/{name}/", f"file:///tmp/{name}", f"/tmp/{name}//"):
        assert Folder(location).is_own_of(name)
    for location in (f"s3://lake/{name}/data", f"s3://lake/{name}_2", f"s3://lake/{name}/..", "s3://lake", "/"):
        assert not Folder(location).is_own_of(name)


@pytest.mark.parametrize("character", ["#", "?", "\n"])
def test_only_the_folder_itself_is_deleted_where_a_character_ends_the_path_of_a_url(character: str, tmp_path: Path) -> None:
    """PyIceberg takes ``/lake#2/x`` for ``/lake``."""
    name = "flights_clean_5f0c3a9e4b7d4c21a8f6"
    other, own = tmp_path / "lake" / "live.parquet", tmp_path / f"lake{character}2" / name
    for folder in (other.parent, own):
        folder.mkdir(parents=True)
    other.write_bytes(b"live")

    assert Folder(f"file://{own}").delete()

    assert other.exists()
    assert not own.exists()


@pytest.mark.parametrize("name", ["", "a b", "1st", "a.b", "x" * 101, "é"])
def test_a_name_that_no_table_could_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidInterimTable, match="name = "):
        check_options(OutputOptions(name=name))


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed", "removed"])
def test_a_task_is_finished_however_it_ended(state: str) -> None:
    assert DagRunState(RunPhase.ACTIVE, {"report": {0: state, 1: "success"}}).is_finished("report")


@pytest.mark.parametrize(
    "state", [None, "", "scheduled", "queued", "running", "up_for_retry", "deferred", "restarting", "unheard_of"]
)
def test_a_task_of_which_one_instance_goes_on_is_not_finished(state: str | None) -> None:
    assert not DagRunState(RunPhase.ACTIVE, {"report": {0: "success", 1: state}}).is_finished("report")
    assert not DagRunState(RunPhase.ACTIVE).is_finished("report")


def test_an_unknown_instance_has_ended_only_with_its_run() -> None:
    states = {"report": {0: "success", 1: None}}

    assert not DagRunState(RunPhase.ACTIVE, states).has_ended("report", 7)
    assert DagRunState(RunPhase.OVER, states).has_ended("report", 7)
    assert not DagRunState(RunPhase.OVER, {"report": {0: "running"}}).has_ended("report", 0)
    assert DagRunState(RunPhase.OVER, {"report": {0: "up_for_retry"}}).has_ended("report", 0)
    assert DagRunState(RunPhase.GONE, {"report": {0: "running"}}).has_ended("report", 0)


def test_the_docs_have_the_states_and_what_they_may_become() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", DOCS.read_text(), re.MULTILINE)

    told = {state: {word.strip(" `") for word in becomes.split(",")} - {"nothing"} for state, becomes in rows}
    assert told == {state.value: {each.value for each in becomes} for state, becomes in TRANSITIONS.items()}
