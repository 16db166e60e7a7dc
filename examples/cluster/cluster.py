"""The cluster: parts that run in one folder, and the list of their processes, by which another process can stop them.

    with Cluster(home).started(parts_in_order(["s3", "rest"])) as cluster:
        cluster.part(SeaweedFS).endpoint

    stop_cluster(home)                              # from another process

Each start begins with an empty folder: databases, buckets and logs of the last one are gone.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import psutil

from examples.cluster.errors import ClusterRuns, JarsMissing, NeededPartMissing
from examples.cluster.process import end_process
from examples.demo.folder import fresh_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from examples.cluster.part import Part
    from examples.cluster.process import ServerProcess

P = TypeVar("P", bound="Part")

STATE = "processes.json"
OWNER = "make cluster"
OWNER_STOP_LIMIT_S = 180.0


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of the cluster, as a later one finds it again: the system reuses process ids."""

    name: str
    pid: int
    created: float

    @classmethod
    def of(cls, name: str, pid: int) -> RunningProcess:
        return cls(name, pid, psutil.Process(pid).create_time())

    @property
    def is_running(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return process.create_time() == self.created and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


class Cluster:
    """Starts parts, and stops them in the opposite order.

    :param home: the folder of everything that they write.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._parts: dict[type[Part], Part] = {}

    def part(self, kind: type[P]) -> P:
        """Return a part that runs."""
        return cast("P", self._parts[kind])

    @property
    def parts(self) -> list[Part]:
        return list(self._parts.values())

    @contextmanager
    def started(
        self,
        kinds: Iterable[type[Part]],
        report: Callable[[Part], None] = lambda _: None,
        report_missing: Callable[[type[Part], Exception], None] | None = None,
    ) -> Iterator[Cluster]:
        """Run parts inside of the block.

        :param kinds: in an order in which each follows the parts that it needs.
        :param report: called with each part when it is ready.
        :param report_missing: called with each part whose jars cannot be downloaded, or that needs such a part; the others run.
        :raises ClusterRuns: the folder has a cluster that runs.
        :raises NotADemoFolder: the folder has something in it that no cluster or demo made.
        :raises ServerFailed: a part did not start; those before it are stopped. So does :class:`JarsMissing` without
            ``report_missing``.
        """
        owner, servers = recorded_processes(self.home)
        if owner or servers:
            raise ClusterRuns(self.home)
        with fresh_folder(self.home):
            self._record()
            try:
                for kind in kinds:
                    try:
                        report(self._start(kind))
                    except (JarsMissing, NeededPartMissing) as error:
                        if report_missing is None:
                            raise
                        report_missing(kind, error)
                yield self
            finally:
                self.stop()

    def _start(self, kind: type[Part]) -> Part:
        if missing := [needed.name for needed in kind.needs if needed not in self._parts]:
            raise NeededPartMissing(kind.name, missing)
        create: Any = kind
        part: Part = create(self.home / kind.name, *(self._parts[needed] for needed in kind.needs))
        self._parts[kind] = part
        try:
            part.start()
        except JarsMissing:
            self._parts.pop(kind).stop()
            raise
        finally:
            self._record()
        return part

    def stop(self) -> None:
        while self._parts:
            self._parts.popitem()[1].stop()
        self._record()

    @property
    def servers(self) -> list[ServerProcess]:
        return [server for part in self._parts.values() for server in part.servers]

    def _record(self) -> None:
        servers = [RunningProcess.of(each.name, each.pid) for each in self.servers if each.is_running]
        state = {"owner": asdict(RunningProcess.of(OWNER, os.getpid())), "servers": [asdict(each) for each in servers]}
        (self.home / STATE).write_text(json.dumps(state))


def recorded_processes(home: Path) -> tuple[RunningProcess | None, list[RunningProcess]]:
    """Return what still runs of a cluster: the process that has started it, and its servers in the order of their start."""
    try:
        state = json.loads((home / STATE).read_text())
    except FileNotFoundError:
        return None, []
    owner, servers = RunningProcess(**state["owner"]), [RunningProcess(**each) for each in state["servers"]]
    return owner if owner.is_running else None, [server for server in servers if server.is_running]


def stop_cluster(home: Path) -> list[str]:
    """Stop a cluster that another process has started; return the names of the servers that ran."""
    owner, servers = recorded_processes(home)
    if owner is not None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(owner.pid).terminate()
        deadline = time.monotonic() + OWNER_STOP_LIMIT_S
        while owner.is_running and time.monotonic() < deadline:
            time.sleep(0.1)
    # The owner was killed, or takes too long.
    for left in reversed(recorded_processes(home)[1]):
        end_process(left.pid, signal.SIGTERM)
    return [server.name for server in servers]
