"""How tests are handed out to the processes of ``pytest --numprocesses``: by file, and all that share something heavy to one.

A browser, a server or an environment that the tests of a file share is made once, as are its imports.

    scheduler = one_of_each(config, log)

What takes longest is handed out first, so that a run does not end with one long chain beside an idle process: the groups, then
integration tests, then unit tests.

The invariant: the run ends, also when a process dies in the middle of a test. In pytest-xdist 3.8 it does not: what the dead
process had done is handed out again, as units of nothing, the test that ended it is tried again, and its successor gets tests
before it knows them, or a single one, which does not begin before there is a second (pytest-dev/pytest-xdist#1323, #1327, #1371,
#1378).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK_FOLDERS = {"spark", "maintenance", "faces"}
# Files that do not use the session of the ``spark`` fixture: they use no Spark, or start JVMs of their own.
WITHOUT_SESSION = (
    "test_cluster_builds_",
    "test_connect",
    "test_dags_of_tables",
    "test_ended_tasks",
    "test_docker_runner",
    "test_entries_",
    "test_entry_",
    "test_files_of_other_tables",
    "test_kubernetes_runner",
    "test_on_thrift",
    "test_quarantine",
    "test_removals.py",
    "test_run_states_",
    "test_start",
    "test_worker_without_airflow",
)
# The folders below tests/system that do not use the running Airflow.
SYSTEM_FOLDERS = {"dags_test", "demo"}
LONGEST_FIRST = ("airflow", "maintenance", "spark", "dags_test", "demo")
AT_LEAST = 2  # a process begins with a test when it knows the next one, or that there is none


def scope_of(nodeid: str) -> str:
    """Return the name of the group that runs in one process with this test: that of something heavy, or else its file.

    All tests on the running Airflow are one group, and so are all of ``airflow dags test``, and the demo. Those on Spark are two,
    each on a session of its own: the tests of maintenance take as long as all others together.
    """
    path = nodeid.partition("::")[0]
    *folders, file = path.split("/")
    if "system" in folders:
        return next(iter(SYSTEM_FOLDERS & set(folders)), "airflow")
    if "integration" not in folders or file.startswith(WITHOUT_SESSION):
        return path
    if folders[-1] in SPARK_FOLDERS or "on_spark" in nodeid:
        return "maintenance" if "maintenance" in folders else "spark"
    return path


def place_of(scope: str) -> int:
    """Return the place of a group among those that are handed out; of several at one place, that with the most tests is first."""
    if scope in LONGEST_FIRST:
        return LONGEST_FIRST.index(scope)
    return len(LONGEST_FIRST) + ("unit" in scope.split("/"))


class OneOfEach(LoadScopeScheduling):
    """Hands out tests by :func:`scope_of`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=place_of), last=False)
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
