"""DAGs that hand interim tables over, for the system tests alone: without Spark, so that they take seconds."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, setup, task, task_group, teardown
from airflow.sdk.exceptions import AirflowFailException

from airflow_snowpack.interim import named_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from airflow.sdk import Context

    from airflow_snowpack.interim import TableRef

SOON = timedelta(seconds=1)
PATIENCE_S = 900
AGAIN: dict[str, Any] = {"retries": 2, "retry_delay": SOON}


def wait_for(file: Path) -> None:
    """Until somebody lets the story go on."""
    deadline = time.monotonic() + PATIENCE_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(str(file))
        time.sleep(0.1)


with DAG("system_interim", schedule=None, default_args=AGAIN):

    @setup
    @task.snowpack
    def source() -> pa.Table:
        import pyarrow as pa

        return pa.table({"n": [1, 2, 3]})

    @task.snowpack
    def brittle(numbers: pa.Table, ti: Any) -> pa.Table:
        import pyarrow.compute as pc

        if ti.try_number < 3:
            raise RuntimeError("not yet")
        return numbers.append_column("twice", pc.multiply(numbers["n"], 2))

    @task.snowpack
    def view(numbers: TableRef) -> Any:
        return numbers.order_by("n desc").limit(2)

    @task.snowpack
    def diamond(left: pa.Table, right: pa.Table) -> pa.Table:
        return left.join(right, "n", join_type="inner").sort_by("n")

    @task_group
    def parts(n: int) -> Any:
        @task.snowpack
        def part(n: int) -> pa.Table:
            import pyarrow as pa

            return pa.table({"n": [n] * n})

        @task.snowpack
        def passed(rows: TableRef) -> TableRef:
            return rows

        return passed(part(n))

    @task.branch
    def choose(diamond: Any) -> str:
        return "report"

    @task.snowpack
    def unused(numbers: pa.Table) -> None: ...

    @task.snowpack
    def report(diamond: pa.Table, parts: list[pa.Table]) -> dict[str, Any]:
        return {"diamond": diamond.to_pylist(), "parts": sorted(len(part) for part in parts)}

    @teardown
    @task.snowpack
    def tidy(numbers: pa.Table) -> int:
        return len(numbers)

    numbers = source()
    both = diamond(brittle(numbers), view(numbers))
    said = report(both, parts.expand(n=[1, 2]))
    choose(both) >> [said, unused(numbers)]
    said >> tidy(numbers)


STORY: dict[str, Any] = {"story": "", "folder": ""}

with DAG("system_interim_kills", schedule=None, default_args=AGAIN, params=STORY):

    @task.snowpack
    def make(params: dict[str, Any]) -> pa.Table:
        import pyarrow as pa

        return pa.table({"story": [params["story"]]})

    @task.snowpack
    def use(made: pa.Table, params: dict[str, Any], ti: Any) -> pa.RecordBatchReader:
        """Rows that the first try is kept waiting with, while it is writing their table; it leaves its process id."""
        import pyarrow as pa

        told = pa.schema([("story", pa.string()), ("try", pa.int64())])
        folder, story = Path(params["folder"]), params["story"]

        def batches() -> Iterator[pa.RecordBatch]:
            if ti.try_number == 1:
                (folder / f"{story}.pid").write_text(str(os.getpid()))
                wait_for(folder / f"{story}.go")
            yield pa.record_batch([[made["story"][0].as_py()], [ti.try_number]], schema=told)

        if story == "fails":
            raise AirflowFailException("as it was told")
        return pa.RecordBatchReader.from_batches(told, batches())

    @task.snowpack
    def check(used: pa.Table) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = used.to_pylist()
        return rows

    check(use(make()))

for waiting in ("system_interim_clears", "system_interim_paused"):
    with DAG(waiting, schedule=None, default_args=AGAIN, params=STORY):

        @task.snowpack(task_id="make")
        def made_again(params: dict[str, Any]) -> pa.Table:
            import pyarrow as pa

            return pa.table({"n": [1, 2, 3]})

        @task.snowpack
        def count(made: pa.Table) -> int:
            return len(made)

        @task.snowpack
        def slow(made: TableRef, params: dict[str, Any]) -> TableRef:
            folder = Path(params["folder"])
            (folder / f"{params['story']}.pid").write_text(str(os.getpid()))
            wait_for(folder / f"{params['story']}.go")
            return made

        @task.snowpack
        def late(made: pa.Table) -> int:
            return len(made)

        made = made_again()
        count(made)
        late(slow(made))


class UntilToldTo(BaseOperator):
    """Waits in the triggerer until the test creates the file of its story.

    Airflow may fail a try that is resumed before it has noticed the deferral (docs/decisions/0010). The next try finds the file.
    """

    def execute(self, context: Context) -> None:
        from airflow.providers.standard.triggers.file import FileTrigger

        file = Path(context["params"]["folder"]) / f"{context['params']['story']}.go"
        if not file.exists():
            self.defer(trigger=FileTrigger(str(file), poke_interval=1), method_name="go_on")

    def go_on(self, context: Context, event: Any) -> None:
        pass


TWIN = {"left": "right", "right": "left"}


def meet_twin(place: str, params: dict[str, Any]) -> None:
    """Until the other run is at the same place of its own: both are at work then."""
    folder = Path(params["folder"])
    (folder / f"{params['story']}.{place}").touch()
    wait_for(folder / f"{TWIN[params['story']]}.{place}")


with DAG("system_interim_twins", schedule=None, default_args=AGAIN, params=STORY):

    @task.snowpack(name="letters", scope="run")
    def spell(params: dict[str, Any]) -> pa.Table:
        import pyarrow as pa

        meet_twin("spells", params)
        return pa.table({"letter": list(params["story"])})

    @task.snowpack
    def read(handed: pa.Table, named: pa.Table, params: dict[str, Any]) -> dict[str, str]:
        meet_twin("reads", params)
        return {"handed": "".join(handed["letter"].to_pylist()), "named": "".join(named["letter"].to_pylist())}

    spelt = spell()
    spelt >> UntilToldTo(task_id="wait") >> read(spelt, named_table("letters"))
