"""Runs an entry in a container, with the operator of Airflow's Docker provider.

    runner = DockerRunner("acme/score:1.4", EntryIdentity(attempt, store.identity), {"network_mode": "none"})
    code = runner.run(exchange.invocation(isolated=runner.isolated, inside=runner.inside), on_line)

The provider's operator pulls the image, logs in to its registry, and creates, follows and removes the container; its arguments
are the runner's options. The invariant: a container of an earlier attempt is removed before another one starts, and none is left
when :meth:`DockerRunner.run` has ended. A container that a killed worker left is found by its labels.

This module imports neither the provider nor docker: DAG files import it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.entries.errors import InvalidRunnerOption
from airflow_snowpack.operators.entries.identity import ATTEMPT, TASK_INSTANCE
from airflow_snowpack.runners.errors import EntryCancelled, EntryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_snowpack.operators.entries.identity import EntryIdentity
    from airflow_snowpack.runners.invocation import Invocation, Line

log = logging.getLogger(__name__)

INSIDE = "/snowpack"

SET_BY_THE_TASK = {
    "image": "use the task's argument image",
    "command": "use the task's argument command",
    "entrypoint": "the entry's command replaces that of the image",
    "environment": "use the task's argument command_env",
    "private_environment": "use the task's argument command_env",
    "env_file": "use the task's argument command_env",
    "auto_remove": "the container is always removed",
    "mount_tmp_dir": "the entry has its exchange folder",
    "tty": "a terminal would mix stdout and stderr",
    "retrieve_output": "use the task's argument outputs",
    "retrieve_output_path": "use the task's argument outputs",
    "xcom_all": "the output is logged",
    "skip_on_exit_code": "an exit code other than 0 fails the task",
}
"""Arguments of the provider's operator that are no options of the runner, with what to use instead."""


def check_docker_options(options: Mapping[str, Any]) -> None:
    """:raises InvalidRunnerOption: an option is one that the task sets itself."""
    for name, instead in SET_BY_THE_TASK.items():
        if name in options:
            raise InvalidRunnerOption(name, instead)


class DockerRunner:
    """The runner ``docker``.

    :param image: a reference by tag or by digest, used as it is.
    :param identity: the attempt, which the labels of the container name.
    :param options: arguments of the provider's ``DockerOperator``, such as ``docker_url``, ``docker_conn_id``, ``network_mode``,
        ``mem_limit`` and ``mounts``.
    :raises InvalidRunnerOption: an option is one that the task sets itself.
    """

    isolated = True
    inside: str | None = INSIDE

    def __init__(self, image: str, identity: EntryIdentity, options: Mapping[str, Any] | None = None) -> None:
        check_docker_options(options or {})
        self.image = image
        self.identity = identity
        self.options = dict(options or {})
        self._stopped = threading.Event()

    def run(self, invocation: Invocation, on_line: Callable[[Line], None]) -> int:
        """Run the entry in a container; see :meth:`Runner.run`.

        :raises DockerUnavailable: the daemon does not answer.
        :raises ImageNotFound, ImageNotPulled: the image cannot be pulled.
        :raises OutOfMemory: the container exceeded its memory limit.
        :raises EntryRemoved: another process removed the container.
        """
        from airflow_snowpack.operators.entries.docker_container import EntryContainer

        container = EntryContainer.of(self.image, self.identity, self.options, invocation, on_line)
        try:
            with container.errors():
                container.remove_labelled(TASK_INSTANCE, self.identity.task_instance, only=self.identity.is_left_over)
                code = container.run_entry(self._refuse_stopped)
        except EntryError:
            self._refuse_stopped()  # what failed is what the stop has removed
            raise
        self._refuse_stopped()  # the entry ended well when it was asked to
        return code

    def stop(self) -> None:
        """End the entry; see :meth:`Runner.stop`. Returns when the container is removed, after little more than ``GRACE_S``.

        It does not use the client of :meth:`run`, whose locks an interrupted thread may hold.
        """
        self._stopped.set()
        from airflow_snowpack.operators.entries.docker_container import GRACE_S, EntryContainer

        # Without the registry's connection: the provider would log in first, and there are 5 s.
        options = self.options | {"timeout": GRACE_S + 1, "docker_conn_id": None}
        container = EntryContainer.of(self.image, self.identity, options)
        try:
            with container.errors():
                container.remove_labelled(ATTEMPT, self.identity.attempt.id, grace_s=GRACE_S)
        except EntryError as error:
            log.warning("The container could not be stopped; the next attempt of the task removes it. %s", error)

    def _refuse_stopped(self) -> None:
        if self._stopped.is_set():
            raise EntryCancelled
