"""Processes that build images, for tests that race and kill them.

    python image_process.py together <store url> <remote> <commit> <processes> [program]
    python image_process.py one <store url> <remote> <commit> <fifo>
    python image_process.py killed <store url> <remote> <commit> <stride>

``together`` forks the processes, which all request the image at the same moment; none ends its build before every other one has
its answer. It prints how many built, and what each found then and afterwards. ``one`` builds until the fifo is read to its end.
``killed`` forks children, each of which builds an image of its own and kills itself at a later moment than the one before: around
each SQL statement, commit and step of the builder, or at one of so many. It prints the first moment at which none was killed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from multiprocessing import get_context
from threading import Barrier
from typing import Any

import sqlalchemy as sa
from bounded import PATIENCE_S
from heard_statements import hear_direct
from image_world import REGISTRY, NotedBuilder

from airflow_snowpack.runners.images import ImageBuild, ImageBuilds, ImageTarget, Ready
from airflow_snowpack.runners.images.builders import Builder, BuildJob
from airflow_snowpack.store import open_store


class Slow(Builder):
    """Builds with a program, and not before every other process has its answer."""

    built = 0

    def build(self, job: BuildJob) -> str:
        self.built += 1
        globals()["answered"].wait(PATIENCE_S)
        return super().build(job)


def keep_barriers(begin: Barrier, answered: Barrier, ended: Barrier) -> None:
    globals().update(begin=begin, answered=answered, ended=ended)


def take_part(number: int, url: str, remote: str, commit: str, program: str) -> dict[str, Any]:
    source = ImageBuild(remote, commit)
    with open_store(url) as store:
        if program == "noted":
            builder: Any = NotedBuilder(lambda _: globals()["answered"].wait(PATIENCE_S))
            images = ImageBuilds(store, ImageTarget(registry=REGISTRY), builder=builder)
        else:
            builder = Slow(program)
            images = ImageBuilds(store, ImageTarget(program), builder=builder)
        globals()["begin"].wait(PATIENCE_S)
        first = images.ensure(source, build=True, holder=f"w{number}")
        built = len(builder.jobs) if program == "noted" else builder.built
        if not built:
            globals()["answered"].wait(PATIENCE_S)
        globals()["ended"].wait(PATIENCE_S)
        found = images.ensure(source, build=program == "noted")
        assert isinstance(found, Ready), found
        return {"built": built, "first": type(first).__name__, "reference": found.reference}


def together(url: str, remote: str, commit: str, processes: str, program: str = "noted") -> None:
    fork, parties = get_context("fork"), int(processes)
    barriers = tuple(fork.Barrier(parties) for _ in range(3))
    with ProcessPoolExecutor(parties, fork, keep_barriers, barriers) as pool:
        futures = [pool.submit(take_part, number, url, remote, commit, program) for number in range(parties)]
        print(json.dumps([future.result() for future in futures]), flush=True)


def one(url: str, remote: str, commit: str, fifo: str) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)

    def wait(job: BuildJob) -> None:
        job.commands.run(["sh", "-c", 'echo "building $PWD"; exec cat "$0"', fifo], job.scratch)

    builder = NotedBuilder(wait)
    with open_store(url) as store:
        found = ImageBuilds(store, ImageTarget(registry=REGISTRY), builder=builder).ensure(
            ImageBuild(remote, commit), build=True, holder="first", on_line=partial(print, flush=True)
        )
    print(json.dumps([type(found).__name__, getattr(found, "digest", None), builder.published]), flush=True)


def killed(url: str, remote: str, commit: str, stride: str) -> None:
    for moment in count(1, int(stride)):
        pid = os.fork()
        if pid == 0:
            try:
                _build_and_die(url, ImageBuild(remote, commit, build_args={"MOMENT": str(moment)}), moment)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            print(moment, flush=True)
            return


def _build_and_die(url: str, source: ImageBuild, moment: int) -> None:
    left = count(1)

    def die(*_: object) -> None:
        if next(left) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    store = open_store(url)
    for event in ("before_cursor_execute", "after_cursor_execute", "commit"):
        sa.event.listen(store.engine, event, die)
    hear_direct()
    images = ImageBuilds(store, ImageTarget(registry=REGISTRY), builder=NotedBuilder(die))
    assert isinstance(images.ensure(source, build=True, holder="doomed", on_line=lambda _: None), Ready)
    os._exit(0)


if __name__ == "__main__":
    {"together": together, "one": one, "killed": killed}[sys.argv[1]](*sys.argv[2:])
