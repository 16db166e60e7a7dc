"""Which tasks a table is kept for: also for those that a plain task passes its reference on to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack import hooks
from tests.unit.faces.conftest import Runner

if TYPE_CHECKING:
    from airflow.sdk import DAG


@pytest.fixture
def make() -> Any:
    from airflow.sdk import task

    @task.snowpack
    def make() -> pa.Table:
        return pa.table({"n": [1]})

    return make


@pytest.fixture
def plain() -> Any:
    from airflow.sdk import task

    @task
    def plain(*handed: Any, **named: Any) -> Any: ...

    return plain


@pytest.fixture
def interim() -> Any:
    from airflow.sdk import task

    @task.snowpack
    def interim(handed: Any) -> Any: ...

    return interim


@pytest.fixture
def dag() -> DAG:
    from airflow.sdk import DAG

    return DAG("guard", schedule=None)


def consumers_of(operator: Any) -> set[str]:
    from airflow_snowpack.operators import interim

    return interim.consumers_of(operator)


def called(function: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return function.override(task_id=name)(*args, **kwargs)


def test_a_plain_task_passes_its_reference_on_to_its_consumers(dag: DAG, make: Any, plain: Any, interim: Any) -> None:
    with dag:
        made = make()
        picked = called(plain, "pick", [made])
        again = called(plain, "again", nested={"in": picked})
        called(interim, "use", again)
        called(plain, "unrelated", 7) >> called(plain, "after_unrelated")

    assert consumers_of(made.operator) == {"pick", "again", "use"}


def test_a_task_that_hands_over_pins_for_its_own_consumers(dag: DAG, make: Any, plain: Any, interim: Any) -> None:
    with dag:
        made = make()
        called(plain, "last", called(interim, "use", made))

    assert consumers_of(made.operator) == {"use"}


def test_a_task_that_only_comes_later_is_handed_nothing_to_pass_on(dag: DAG, make: Any, plain: Any) -> None:
    with dag:
        made = make()
        made >> called(plain, "notify") >> called(plain, "after")

    assert consumers_of(made.operator) == {"notify"}


def test_two_ways_to_one_task_are_both_followed(dag: DAG, make: Any, plain: Any, interim: Any) -> None:
    with dag:
        made = make()
        short = called(plain, "short", made)
        long = called(plain, "long", called(plain, "longer", made))
        joined = called(plain, "join", long)
        short >> joined
        called(interim, "use", joined)

    assert consumers_of(made.operator) == {"short", "longer", "long", "join", "use"}


def test_mapped_tasks_pass_on_as_well(dag: DAG, make: Any, plain: Any, interim: Any) -> None:
    with dag:
        made = make()
        expanded = plain.override(task_id="expanded").expand(handed=[made, made])
        partial = plain.override(task_id="partial").partial(handed=made).expand(other=[1, 2])
        interim.override(task_id="use").expand(handed=expanded)
        interim.override(task_id="use_partial").expand(handed=partial)

    assert consumers_of(made.operator) == {"expanded", "partial", "use", "use_partial"}


def test_references_in_the_fields_of_other_operators_count(dag: DAG, make: Any, interim: Any) -> None:
    from airflow.sdk import BaseOperator

    class Picks(BaseOperator):
        template_fields = ("refs",)

        def __init__(self, refs: Any, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.refs = refs

    with dag:
        made = make()
        called(interim, "use", Picks(task_id="pick", refs=[made]).output)

    assert consumers_of(made.operator) == {"pick", "use"}


def test_the_table_is_pinned_for_them(run_operator: Runner, dag: DAG, make: Any, plain: Any, interim: Any) -> None:
    with dag:
        made = make()
        called(interim, "use", called(plain, "pick", made))

    outcome = run_operator(made.operator)

    with hooks.SnowpackHook() as hook:
        assert set(hook.interim().table(outcome.xcom["table_id"]).pins) == {"guard/run1/pick", "guard/run1/use"}
