"""How tests are handed out to the processes of ``pytest --numprocesses``: by file, and all that share something heavy to one.

A browser, a server or an environment that the tests of a file share is made once, as are its imports.

    scheduler = one_of_each(config, log)

What takes longest is handed out first, so that a run does not end with one long chain beside an idle process.

The invariant: the run ends, also when a process dies in the middle of a test. In pytest-xdist 3.8 it does not: what the dead
process had done is handed out again, as units of nothing, the test that ended it is tried again, and its successor gets tests
before it knows them, or a single one, which does not begin before there is a second (pytest-dev/pytest-xdist#1323, #1327, #1371,
#1378).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

SPARK_FOLDERS = {"spark", "maintenance", "faces"}
# The files in these folders that do not use Spark.
WITHOUT_SPARK = (
    "test_dags_of_tables",
    "test_docker_runner",
    "test_entries_",
    "test_entry_",
    "test_kubernetes_runner",
    "test_run_states_",
)
# The folders below tests/system that do not use the running Airflow.
SYSTEM_FOLDERS = {"dags_test", "demo"}
LONGEST_FIRST = ("airflow", "spark", "dags_test", "demo")
AT_LEAST = 2  # a process begins with a test when it knows the next one, or that there is none


def scope_of(nodeid: str) -> str:
    """Return the name of the group that runs in one process with this test: that of something heavy, or else its file.

    All tests on the running Airflow are one group, and so are all on Spark, all of ``airflow dags test``, and the demo.
    """
    path = nodeid.partition("::")[0]
    *folders, file = path.split("/")
    if "system" in folders:
        return next(iter(SYSTEM_FOLDERS & set(folders)), "airflow")
    if "integration" in folders and (SPARK_FOLDERS & set(folders) or "on_spark" in nodeid):
        return path if file.startswith(WITHOUT_SPARK) else "spark"
    return path


class OneOfEach(LoadScopeScheduling):
    """Hands out tests by :func:`scope_of`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        for scope in reversed(LONGEST_FIRST):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        # A process that just died can't be told any more; what it was assigned is handed out again when its end is known.
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if node not in self.registered_collections:  # a successor that does not know the tests yet
            return
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < AT_LEAST:
            super()._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        workload = self.assigned_work[node]
        undone = {scope: unit for scope, unit in workload.items() if not all(unit.values())}
        if not undone:
            crashed: str | None = super().remove_node(node)
            return crashed
        first = next(iter(undone.values()))
        crashed = next(nodeid for nodeid, done in first.items() if not done)
        first[crashed] = True  # it is told as failed, and would only end the next process too
        del self.assigned_work[node]
        self.workqueue.update({scope: unit for scope, unit in undone.items() if not all(unit.values())})
        for other in self.nodes:
            self._reschedule(other)
        return crashed


def one_of_each(config: pytest.Config, log: Any) -> OneOfEach:
    """The scheduler of this run."""
    return OneOfEach(config, log)
