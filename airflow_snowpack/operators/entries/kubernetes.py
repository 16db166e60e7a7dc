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

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.entries.errors import InvalidRunnerOption
from airflow_snowpack.operators.entries.identity import ATTEMPT, TASK_INSTANCE
from airflow_snowpack.runners.errors import EntryCancelled, EntryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta
    from pathlib import Path

    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_snowpack.operators.entries.identity import EntryIdentity
    from airflow_snowpack.operators.entries.kubernetes_pod import EntryPod
    from airflow_snowpack.runners.invocation import Invocation, Line

log = logging.getLogger(__name__)

INSIDE = "/snowpack"
GRACE_S = 2
"""Seconds between SIGTERM and SIGKILL for a pod that is stopped, or that an earlier attempt has left."""

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
        self._namespace: str | None = None

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
        with self._running(deferrable=False) as pod:
            pod.receive(invocation, on_line)
            self._prepare(pod)
            return pod.run_entry(self.context)

    def submit(self, invocation: Invocation, on_line: Callable[[Line], None]) -> Waiting | int:
        """Start the pod and return what the task waits for, or the exit code of an entry that has ended already.

        :raises EntryError: as for :meth:`run`.
        """
        with self._running(deferrable=True) as pod:
            pod.receive(invocation, on_line)
            self._prepare(pod)
            return self._or_wait(lambda: pod.run_entry(self.context))

    def resume(self, event: Mapping[str, Any], mark: str | None, on_line: Callable[[Line], None]) -> Waiting | int:
        """Pass on the output of the entry and return its exit code, or wait again.

        :param event: of the trigger.
        :param mark: of the invocation.
        :raises EntryError: as for :meth:`run`.
        """
        self._namespace = event["namespace"]
        with self._running(deferrable=True) as pod:
            pod.receive(None, on_line, mark)
            return self._or_wait(lambda: pod.resume_entry(self.context, event))

    def discard(self, event: Mapping[str, Any]) -> None:
        """Delete the pod of a task that cannot resume.

        :param event: of the trigger.
        """
        self._namespace = event["namespace"]
        self.stop()

    def stop(self) -> None:
        """End the entry; see :meth:`Runner.stop`. The cluster ends the pod's processes, with ``GRACE_S`` after SIGTERM.

        It does not use the client of :meth:`run`, whose locks an interrupted thread may hold.
        """
        self._stopped.set()
        if (namespace := self._namespace) is None:
            return  # no pod has been created, and none will be
        try:
            pod = self._pod(deferrable=False)
            with pod.errors():
                pod.remove_labelled(namespace, ATTEMPT, self.identity.attempt.id, grace_s=GRACE_S)
        except EntryError as error:
            log.warning("The pod could not be deleted; the next attempt of the task deletes it. %s", error)

    def _prepare(self, pod: EntryPod) -> None:
        """Build the request, and delete what earlier attempts have left in its namespace."""
        pod.pod_request_obj = pod.build_pod_request_obj(self.context)
        self._namespace = pod.pod_request_obj.metadata.namespace
        mine = self.identity
        pod.remove_labelled(self._namespace, TASK_INSTANCE, mine.task_instance, only=mine.is_left_over, grace_s=GRACE_S)

    @contextmanager
    def _running(self, *, deferrable: bool) -> Iterator[EntryPod]:
        pod = self._pod(deferrable=deferrable)
        pod.refuse_stopped = self._refuse_stopped
        try:
            with pod.errors():
                yield pod
        except EntryError:
            self._refuse_stopped()  # what failed is what the stop has deleted
            raise
        self._refuse_stopped()

    def _or_wait(self, call: Callable[[], int]) -> Waiting | int:
        from airflow.sdk.exceptions import TaskDeferred

        try:
            return call()
        except TaskDeferred as deferred:
            return Waiting(deferred.trigger, deferred.timeout)

    def _refuse_stopped(self) -> None:
        if self._stopped.is_set():
            raise EntryCancelled

    def _pod(self, *, deferrable: bool) -> EntryPod:
        from airflow_snowpack.operators.entries.kubernetes_pod import EntryPod

        options = {name: value for name, value in self.options.items() if name != "deferrable"}
        limits: dict[str, Any] = {"root": self.root, "time_limit": self.time_limit}
        return EntryPod.of(self.image, self.identity, options, deferrable=deferrable, **limits)
