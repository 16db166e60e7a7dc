"""The labels of containers and pods, and what parsing a DAG file with entries imports."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from entry_world import identity

if TYPE_CHECKING:
    from airflow_snowpack.operators.entries.place import EntryIdentity

VALID_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
LATER = timedelta(minutes=5)
DAG_FILE = """
import sys
from airflow.sdk import DAG, task
from airflow_snowpack.operators import RunEntryOperator
with DAG("entries", schedule=None):
    RunEntryOperator(task_id="a", runner="docker", image="acme/score:1", command=["score"], runner_options={"mem_limit": "1g"})
    RunEntryOperator(task_id="b", runner="kubernetes", image="acme/score:1", function="acme:score")
    @task.snowpack(runner="kubernetes", image="acme/score:1")
    def c(): ...
    c()
loaded = sorted(name for name in sys.modules if name.partition(".")[0] in {"docker", "kubernetes", "kubernetes_asyncio"})
providers = sorted(name for name in sys.modules if name.startswith(("airflow.providers.docker.", "airflow.providers.cncf.")))
print(loaded[:3], [name for name in providers if ".operators." in name or ".hooks." in name])
"""


@pytest.mark.parametrize(
    ("other", "is_left_over"),
    [
        (identity("other", 1, -LATER), True),
        (identity("other", 2), True),  # a repetition of the try, after its worker was lost
        (identity("other", 3, -LATER), True),  # of a run that was deleted and created again: its tries begin at 1
        (identity("other", 3), False),
        (identity("other", 1, LATER), False),
        (identity("mine", 2), False),
        (identity("other", 1, task="another"), False),
        (identity("other", 1, store_id="store-2"), False),
    ],
)
def test_an_attempt_removes_what_earlier_attempts_of_its_task_instance_left(other: EntryIdentity, is_left_over: bool) -> None:
    assert identity("mine", 2).is_left_over(other.labels()) is is_left_over


def test_foreign_labels_are_never_left_over() -> None:
    assert not identity().is_left_over({})
    assert not identity().is_left_over({"airflow_snowpack.task_instance": "another"})


def test_the_keys_are_valid_labels_of_kubernetes() -> None:
    keys = identity(task="t" * 250).keys()
    assert [value for value in keys.values() if not VALID_LABEL.fullmatch(value)] == []
    assert [name for name in keys if not VALID_LABEL.fullmatch(name)] == []


def test_parsing_a_dag_file_with_entries_imports_no_client_of_docker_or_kubernetes() -> None:
    parsed = subprocess.run([sys.executable, "-c", DAG_FILE], capture_output=True, text=True, check=True)
    assert parsed.stdout.splitlines()[-1] == "[] []"


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[]", "null", '{"task": "flights/r/score", "runner": "kubernetes", "attempt": ["a"]}']
)
def test_a_note_that_cannot_be_read_keeps_no_sweep_from_the_others(text: str, tmp_path: Path) -> None:
    from airflow_snowpack.operators.entries.place import RunPlace, read_notes

    RunPlace("acme/score:1.4", identity("0196-b"), {}, {}, tmp_path).write_note("kubernetes", {"namespace": "lake"})
    (tmp_path / "running-0196-a.json").write_text(text)
    assert [note.place.identity for note in read_notes(tmp_path, "store-1")] == [identity("0196-b")]
