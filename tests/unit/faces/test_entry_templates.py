"""Templates in commands and in the environment variables of entries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack import operators
from tests.unit.faces.conftest import Runner

SECRET = "a-very-secret-value"


def test_variables_are_rendered_for_the_entry_alone_and_never_in_an_argument(
    run_operator: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN", SECRET)
    monkeypatch.setenv("FROM_THE_WORKER", "yes")
    received = tmp_path / "received.json"
    program = "import json, os, sys; json.dump([os.environ['TOKEN'], os.environ['FROM_THE_WORKER']], open(sys.argv[1], 'w'))"

    variables = {"TOKEN": "{{ var.value.token }}", "EMPTY": ""}
    command = [sys.executable, "-c", program, str(received)]
    operator = operators.RunEntryOperator(task_id="score", runner="subprocess", command=command, command_env=variables)
    outcome = run_operator(operator)

    assert outcome.state == "success", outcome.error
    assert json.loads(received.read_text()) == [SECRET, "yes"]
    masked = [each.value for each in outcome.sent if type(each).__name__ == "MaskSecret"]
    assert SECRET in masked
    others = [each for each in outcome.sent if type(each).__name__ not in ("MaskSecret", "VariableResult")]
    assert SECRET not in repr(others)


def test_templates_of_commands_and_variables_stay_texts_in_a_dag_that_renders_native_objects(
    run_operator: Runner, tmp_path: Path
) -> None:
    from airflow.sdk import DAG

    received = tmp_path / "received.json"
    program = "import json, os, sys; json.dump([sys.argv[2], os.environ['ALSO']], open(sys.argv[1], 'w'))"
    with DAG("guard", schedule=None, render_template_as_native_obj=True):
        operator = operators.RunEntryOperator(
            task_id="score",
            runner="subprocess",
            command=[sys.executable, "-c", program, str(received), "{{ '1e5' }}"],
            command_env={"ALSO": "{{ '0x10' }}"},
        )

    outcome = run_operator(operator)

    assert outcome.state == "success", outcome.error
    assert json.loads(received.read_text()) == ["1e5", "0x10"]


def test_variables_that_a_task_is_expanded_over_are_no_templates(run_operator: Runner, tmp_path: Path) -> None:
    """They may be the result of another task, which must not read the secrets of this one."""
    from airflow.sdk import DAG

    program = "import os, sys; open(sys.argv[1], 'w').write(os.environ['FROM'])"
    partial: dict[str, Any] = {"task_id": "score", "runner": "subprocess"}
    command = [sys.executable, "-c", program, str(tmp_path / "received")]
    with DAG("guard", schedule=None):
        mapped = operators.RunEntryOperator.partial(**partial, command=command).expand(command_env=[{"FROM": "{{ 1 + 1 }}"}])

    outcome = run_operator(mapped, map_index=0)

    assert outcome.state == "success", outcome.error
    assert (tmp_path / "received").read_text() == "{{ 1 + 1 }}"
