"""Runs an entry in a pod, with the operator of Airflow's Kubernetes provider.

    runner = KubernetesRunner("acme/score:1.4", identity, context, options={"pod_template_file": "/etc/airflow/entry.yaml"})
    code = runner.run(invocation, on_line)

    waiting = runner.submit(invocation, on_line)                            # deferrable: the worker's slot is free meanwhile
    self.defer(trigger=waiting.trigger, timeout=waiting.timeout, method_name="entry_ended", kwargs={"mark": invocation.mark, …})
    outcome = runner.resume(event, mark, on_line)                        # in entry_ended: an exit code, or another Waiting

The provider's operator builds the pod from its template, follows it and deletes it; its arguments are the runner's options. The
environment of the entry is a Secret that the cluster deletes with the pod. The invariant: a pod of an earlier attempt is deleted
before another one starts, and no pod is left when the entry has ended.

The exchange folder is on a volume that workers and pods mount. The pod, by its template or by ``volumes`` and ``volume_mounts``,
mounts it at ``/snowpack``; the runner narrows that mount to the folder of the attempt.

This module imports neither the provider nor kubernetes: DAG files import it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.entries.errors import InvalidRunnerOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from pathlib import Path

    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_snowpack.operators.entries.identity import EntryIdentity
    from airflow_snowpack.runners.invocation import Invocation, Line

INSIDE = "/snowpack"

SET_BY_THE_TASK = {
    "image": "use the task's argument image",
    "cmds": "use the task's argument command",
    "arguments": "use the task's argument command",
    "env_vars": "use the task's argument command_env",
    "do_xcom_push": "use the task's argument outputs",
    "get_logs": "the output is always logged",
    "log_formatter": "the output is logged as it is",
    "durable": "each attempt runs its own pod",
    "reattach_on_restart": "each attempt runs its own pod",
    "on_finish_action": "the pod is always deleted",
    "on_kill_action": "the pod is always deleted",
    "is_delete_operator_pod": "the pod is always deleted",
    "skip_on_exit_code": "an exit code other than 0 fails the task",
}
"""Arguments of the provider's operator that are no options of the runner, with what to use instead."""


def check_kubernetes_options(options: Mapping[str, Any]) -> None:
    """:raises InvalidRunnerOption: an option is one that the task sets itself."""
    for name, instead in SET_BY_THE_TASK.items():
        if name in options:
            raise InvalidRunnerOption(name, instead)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod runs, and the task waits for it in the triggerer.

    :param trigger: the provider's, for ``BaseOperator.defer``.
    :param timeout: after which Airflow fails the task; ``None`` without a time limit.
    """

    trigger: BaseTrigger
    timeout: timedelta | None


class KubernetesRunner:
    """The runner ``kubernetes``.

    :param image: a reference by tag or by digest, used as it is.
    :param identity: the attempt, which the labels of the pod name.
    :param context: Airflow's, from which the provider's operator takes the labels of the task.
    :param root: the folder of the exchange folders, where the worker mounts the volume (the setting ``runner_folder``).
    :param time_limit: the task's ``execution_timeout``; the pod gets it as its active deadline.
    :param options: arguments of the provider's ``KubernetesPodOperator``, such as ``kubernetes_conn_id``, ``namespace``,
        ``pod_template_file``, ``full_pod_spec``, ``container_resources``, ``secrets`` and ``deferrable``.
    :raises InvalidRunnerOption: an option is one that the task sets itself.
    """

    isolated = True
    inside: str | None = INSIDE

    def __init__(
        self,
        image: str,
        identity: EntryIdentity,
        context: Context,
        *,
        root: Path,
        time_limit: timedelta | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        check_kubernetes_options(options or {})
        self.image = image
        self.identity = identity
        self.context = context
        self.root = root
        self.time_limit = time_limit
        self.options = dict(options or {})
        self._stopped = threading.Event()

    @property
    def deferrable(self) -> bool:
        """Whether the task waits in the triggerer: the option of that name, or Airflow's ``[operators] default_deferrable``."""
        if "deferrable" in self.options:
            return bool(self.options["deferrable"])
        from airflow.configuration import conf

        return bool(conf.getboolean("operators", "default_deferrable", fallback=False))

    def run(self, invocation: Invocation, on_line: Callable[[Line], None]) -> int:
        """Run the entry in a pod; see :meth:`Runner.run`.

        :raises ClusterUnavailable, ClusterNotConfigured, ClusterRefused: the Kubernetes API cannot be used.
        :raises ExchangeFolderNotShared: the pod mounts no volume at ``/snowpack``, or the folder is not on it.
        :raises ImageNotFound, ImageNotPulled, PodNotStarted: the pod did not start.
        :raises OutOfMemory, PodEvicted, PodOutOfTime, EntryRemoved: the entry was ended.
        """
        raise NotImplementedError

    def submit(self, invocation: Invocation, on_line: Callable[[Line], None]) -> Waiting | int:
        """Start the pod and return what the task waits for, or the exit code of an entry that has ended already.

        :raises EntryError: as for :meth:`run`.
        """
        raise NotImplementedError

    def resume(self, event: Mapping[str, Any], mark: str | None, on_line: Callable[[Line], None]) -> Waiting | int:
        """Pass on the output of the entry and return its exit code, or wait again.

        :param event: of the trigger.
        :param mark: of the invocation.
        :raises EntryError: as for :meth:`run`.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """End the entry; see :meth:`Runner.stop`. The cluster ends the pod's processes after its termination grace period."""
        self._stopped.set()
