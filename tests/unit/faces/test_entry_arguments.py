"""What a DAG file may say about an entry, and how it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from airflow_since import VERSION

from airflow_snowpack import operators
from airflow_snowpack.operators.entries.arguments import SET_BY_THE_TASK
from airflow_snowpack.operators.entries.errors import InvalidRunnerOption
from airflow_snowpack.runners.errors import InvalidEntry
from airflow_snowpack.runners.images import ImageBuild

SECRET = "s3cret-value"
SHELL: dict[str, Any] = {"runner": "subprocess", "command": ["true"]}


def operator(**arguments: Any) -> operators.RunEntryOperator:
    return operators.RunEntryOperator(task_id="score", **arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"runner": "ssh", "command": ["true"]}, "runner = 'ssh' is not usable: use one of subprocess, docker, kubernetes"),
        ({"runner": "docker", "command": ["true"]}, "it needs an image; give image='python:3.12', or build=ImageBuild(…)"),
        ({**SHELL, "image": "python:3.12"}, "image = 'python:3.12' is not usable: the runner 'subprocess' uses no image"),
        ({**SHELL, "build": "git"}, "build = 'git' is not usable: the runner 'subprocess' uses no image"),
        ({"runner": "kubernetes", "image": "a", "build": "git", "command": ["true"]}, "give either image or build"),
        ({"runner": "docker", "image": " ", "command": ["true"]}, "write the name of an image"),
        ({"runner": "docker", "image": 7, "command": ["true"]}, "write the name of an image"),
        ({"runner": "subprocess"}, "the task has no command either; give either function or command"),
        ({**SHELL, "function": "acme:score"}, "the task also has a command; give either function or command"),
        ({"runner": "subprocess", "command": "score --all"}, "write the program and each argument on its own"),
        ({"runner": "subprocess", "command": []}, "command"),
        ({"runner": "subprocess", "command": ["a\0b"]}, "NUL"),
        ({"runner": "subprocess", "command": ["echo", None]}, "command"),
        ({**SHELL, "outputs": "scored"}, "write a list of names, such as ['scored']"),
        ({**SHELL, "outputs": ["a", "a"]}, "outputs"),
        ({**SHELL, "outputs": ["../a"]}, "outputs"),
        ({**SHELL, "inputs": {"a/b": None}}, "inputs"),
        ({**SHELL, "inputs": [1]}, "write a dictionary of tables by name"),
        ({**SHELL, "op_kwargs": {"a": 1}}, "a command has none"),
        ({"runner": "subprocess", "function": "score"}, "package.module:function"),
        ({"runner": "subprocess", "function": "acme:score", "outputs": ["a"]}, "a function has none"),
        ({"runner": "subprocess", "function": "acme:score", "inputs": {}}, "a function has none"),
        ({**SHELL, "python": "python3.12"}, "a command has none; write the interpreter as its program"),
        ({"runner": "subprocess", "function": "acme:score", "python": " "}, "write the name or path of an interpreter"),
        ({"runner": "subprocess", "function": "acme:score", "python": 3.12}, "write the name or path of an interpreter"),
        ({**SHELL, "command_env": ["A=1"]}, "write a dictionary of texts"),
        ({**SHELL, "command_env": {"A-B": "1"}}, "the name of a variable has letters, digits and underscores only"),
        ({**SHELL, "command_env": {"A": 1}}, "command_env = 'A' is not usable: the value of this variable is not a text but int"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_the_dag_file(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidEntry) as refused:
        operator(**arguments)

    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("runner", "option"), [(runner, option) for runner, options in SET_BY_THE_TASK.items() for option in options]
)
def test_an_option_that_the_task_sets_itself_is_refused_in_the_dag_file(runner: str, option: str) -> None:
    with pytest.raises(InvalidRunnerOption, match=f"runner_options has '{option}', which the task sets itself: "):
        operator(runner=runner, image="python:3.12", command=["true"], runner_options={option: "x"})


def test_an_error_about_a_variable_contains_no_value() -> None:
    for variables in ({"A B": SECRET}, {"A": [SECRET]}, {"A": f"{SECRET}\0"}, [SECRET]):
        with pytest.raises(InvalidEntry) as refused:
            operator(**SHELL, command_env=variables)
        assert SECRET not in str(refused.value)


def test_what_templates_and_other_tasks_give_is_accepted_as_it_is() -> None:
    from airflow.sdk import DAG

    with DAG("guard", schedule=None):
        first = operator(runner="docker", image="{{ params.image }}", command=["echo", "{{ ds }}"], inputs="{{ params.inputs }}")
        second = operators.RunEntryOperator(
            task_id="next", runner="subprocess", function="{{ params.f }}", op_kwargs={"rows": first.output}
        )

    assert second.upstream_task_ids == {"score"}


def test_variables_are_no_rendered_template() -> None:
    assert "command_env" not in operators.RunEntryOperator.template_fields
    assert {"command", "inputs", "op_kwargs", "function", "image", "name"} <= set(operators.RunEntryOperator.template_fields)


def decorated(function: Callable[..., Any], **arguments: Any) -> Any:
    from airflow.sdk import task

    return task.snowpack(**arguments)(function)


def score(flights: pa.Table) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"runner": "ssh"}, "use one of subprocess, docker, kubernetes"),
        ({"runner": "docker"}, "it needs an image"),
        ({"runner": "subprocess", "image": "a"}, "uses no image"),
        ({"runner": "subprocess", "command": "score"}, "each argument on its own"),
        ({"runner": "subprocess", "outputs": ["scored"]}, "outputs are those of a command"),
        ({"runner": "subprocess", "command_env": {"": "1"}}, "the name of a variable"),
        ({"runner": "subprocess", "command": ["true"], "python": "python3.12"}, "a command has none"),
    ],
)
def test_a_decorator_refuses_arguments_that_do_not_fit_even_if_the_function_is_never_called(
    arguments: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InvalidEntry) as refused:
        decorated(score, **arguments)

    assert expected in str(refused.value)


def test_arguments_of_an_entry_need_a_runner() -> None:
    with pytest.raises(TypeError, match=r"@task\.snowpack on score has command, image without runner"):
        decorated(score, image="python:3.12", command=["score"])


def test_a_function_that_cannot_run_on_its_own_is_refused_in_the_dag_file() -> None:
    limit = 7

    def with_session(spark: Any) -> None: ...
    def with_instance(ti: Any) -> None: ...
    def around() -> int:
        return limit

    expected = {
        with_session: "an entry has no Spark session",
        with_instance: "its parameter 'ti' is of Airflow's context",
        around: "it uses limit of the function around it",
        (lambda: None): "an entry is a function with a name",
    }
    for function, text in expected.items():
        with pytest.raises(InvalidEntry) as refused:
            decorated(function, runner="subprocess")
        assert text in str(refused.value)


def test_the_body_behind_a_command_may_be_anything_since_it_does_not_run() -> None:
    limit = 7

    def body(flights: Any) -> int:
        return limit

    decorated(body, runner="subprocess", command=["score", "{inputs}/flights"], outputs=["scored"])


def test_an_output_of_another_task_may_be_an_argument_of_a_command() -> None:
    from airflow.sdk import DAG, task

    with DAG("guard", schedule=None):
        model = task(task_id="model")(score)(None)
        first = operator(runner="subprocess", command=["score", "--model", model])
        second: Any = task.snowpack(task_id="second", runner="subprocess", command=["score", model])(score)(None)

    assert [each.upstream_task_ids for each in (first, second.operator)] == [{"model"}, {"model"}]


def test_a_dag_with_entries_is_stored_without_the_variables_of_a_task() -> None:
    from airflow.sdk import DAG, task
    from airflow.serialization import serialized_objects

    with DAG("guard", schedule=None) as dag:
        first = operator(**SHELL, command_env={"TOKEN": SECRET}, inputs={"flights": None})
        task.snowpack(runner="subprocess", command_env={"TOKEN": SECRET})(score)(first.output)
        build = ImageBuild("https://example.com/score.git", "main", build_args={"A": "b"})
        task.snowpack(task_id="many", runner="docker", build=build)(score).expand(flights=first.output)
        operators.RunEntryOperator.partial(task_id="mapped", runner="docker", build=build, inputs={}).expand(
            command=[["a"], ["b"]]
        )
        operators.RunEntryOperator.partial(task_id="of", runner="subprocess", function="a:b").expand(op_kwargs=first.output)

    serialization = serialized_objects.DagSerialization if VERSION >= (3, 2) else serialized_objects.SerializedDAG
    stored = json.dumps(serialization.to_dict(dag))

    assert SECRET not in stored
    assert all(f'"{name}"' in stored for name in ("op_kwargs", "command", "mapped", "of", "many"))
