"""A part whose jars no registry has is missing with the parts that need it, and files of others stay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import pytest

from examples.cluster.cluster import Cluster
from examples.cluster.errors import JarsMissing
from examples.cluster.part import Part
from examples.cluster.process import ServerProcess
from examples.demo.errors import NotADemoFolder


class Sleeper(Part):
    """A process without a port."""

    name: ClassVar[str] = "sleeper"
    addresses: ClassVar[dict[str, str]] = {}  # type: ignore[assignment]

    def __init__(self, home: Path) -> None:
        super().__init__()
        command = [sys.executable, "-c", "import time; time.sleep(3600)"]
        self.server = ServerProcess(self.name, command, port=None, log=home / "log")

    def start(self) -> None:
        self.run(self.server, lambda: True)


class WithoutJars(Sleeper):
    """A part that starts a process before it finds that its jars are missing."""

    name: ClassVar[str] = "jars"

    def start(self) -> None:
        super().start()
        raise JarsMissing(self.name, ["org.example#server;1.0: not found"], Path("jars.log"))


class Dependent(Sleeper):
    """A part that needs the one without jars."""

    name: ClassVar[str] = "dependent"
    needs: ClassVar[tuple[type[Part], ...]] = (WithoutJars,)


def test_only_that_part_and_those_that_need_it_are_missing(tmp_path: Path) -> None:
    missing: dict[str, str] = {}

    def note(part: type[Part], error: Exception) -> None:
        missing[part.name] = str(error)

    with Cluster(tmp_path / "cluster").started([WithoutJars, Dependent, Sleeper], report_missing=note) as cluster:
        assert [server.name for server in cluster.servers] == ["sleeper"]
        assert all(server.is_running for server in cluster.servers)

    assert list(missing) == ["jars", "dependent"]
    assert "org.example#server;1.0: not found" in missing["jars"]
    assert missing["dependent"] == "The part dependent needs jars, which did not start."


def test_a_cluster_that_needs_all_of_its_parts_stops_without_one(tmp_path: Path) -> None:
    started: list[Part] = []
    with (
        pytest.raises(JarsMissing),
        Cluster(tmp_path / "cluster").started([Sleeper, WithoutJars], started.append),
    ):
        pass

    (sleeper,) = started
    assert isinstance(sleeper, Sleeper)
    assert not sleeper.server.is_running


def test_a_folder_with_the_files_of_others_is_refused_and_kept(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("years of work")

    with pytest.raises(NotADemoFolder), Cluster(tmp_path).started([Sleeper]):
        pass

    assert thesis.read_text() == "years of work"
