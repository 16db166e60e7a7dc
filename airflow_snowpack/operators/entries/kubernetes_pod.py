"""Airflow's Kubernetes operator for one entry: its request, the lines of its output, and how it ended.

    pod = EntryPod.of(place)
    with pod.errors():
        code = pod.run_entry(invocation, on_line)

The exchange folder is on a volume that workers and pods mount. The pod mounts it at ``/snowpack``, by its template or by
``volumes`` and ``volume_mounts``, and that mount is narrowed to the folder of the attempt. The provider merges its arguments with
the pod's template; what the entry receives is set after that, and no template can change it. The API server replaces ``$(NAME)``
in commands, so each dollar sign is doubled there. The environment is a Secret that the pod owns: more people can read pods than
Secrets, and the cluster deletes it with the pod.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Self

from airflow.providers.cncf.kubernetes.kubernetes_helper_functions import KubernetesApiException, PodLaunchFailedException
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.secret import Secret
from airflow.providers.cncf.kubernetes.utils.pod_manager import (
    PodLaunchTimeoutException,
    PodManager,
    PodNotFoundException,
    _parse_log_level,
    detect_pod_terminate_early_issues,
)
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException, TaskDeferred
from airflow.sdk import Context
from airflow.sdk.bases.operator import ExecutorSafeguard
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from airflow_snowpack.operators.entries.errors import (
    ClusterNotConfigured,
    ClusterRefused,
    ClusterUnavailable,
    EntryRemoved,
    ExchangeFolderNotShared,
    OutOfMemory,
    PodEvicted,
    PodNotAdmitted,
    PodNotStarted,
    PodOutOfTime,
    check_known_options,
    image_error,
)
from airflow_snowpack.operators.entries.place import ATTEMPT, GRACE_S, TASK_INSTANCE, RunPlace, ended_with
from airflow_snowpack.runners.errors import EntryError, EntryNotStarted
from airflow_snowpack.runners.invocation import Invocation, OutputLine
from airflow_snowpack.runners.output_lines import OutputLines, Stream

LOG_IN = "name a Secret of its registry in runner_options={'image_pull_secrets': …}"
NOT_MOUNTED = (
    "the pod mounts no volume at {inside}. In its template, or with runner_options={{'volumes': …, 'volume_mounts': …}}, mount "
    "the volume of the setting runner_folder there, without subPathExpr"
)
IMAGE_PROBLEM = "Image cannot be pulled"
QUOTA = "exceeded quota"
OUT_OF_TIME = "DeadlineExceeded"
NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})


class EntryPod(KubernetesPodOperator):
    """Runs an entry in a pod: the driver of the runner ``kubernetes``.

    :ivar runs_in: the namespace of the pod; ``None`` before its request is built.
    """

    place: RunPlace
    invocation: Invocation | None = None
    lines: OutputLines | None = None
    runs_in: str | None = None

    @classmethod
    def of(cls, place: RunPlace) -> Self:
        check_known_options(place.options, KubernetesPodOperator)
        limit = place.time_limit
        deadline = {} if limit is None else {"active_deadline_seconds": max(1, int(limit.total_seconds()))}
        pod = cls(
            **{"log_pod_spec_on_failure": False, "log_events_on_failure": True, **deadline, **place.options},
            task_id=place.identity.attempt.task.task_id,
            image=place.image,
            durable=False,
            do_xcom_push=False,
            on_finish_action="delete_pod",
            on_kill_action="delete_pod",
            execution_timeout=limit,
        )
        pod.name = cls._set_name(pod.name)  # the request is built before the provider would set the name
        pod.labels = {**pod.labels, **place.identity.keys()}
        pod.place = place
        return pod

    def run_entry(self, invocation: Invocation, on_line: Callable[[OutputLine], None]) -> int:
        """Run the entry in a pod to its end, or until the provider defers; see :meth:`Driver.run_entry`."""
        self.invocation, self.lines = invocation, _lines(on_line, invocation.mark)
        self.pod_request_obj = self.build_pod_request_obj(self.place.context)
        self.runs_in, identity = self.pod_request_obj.metadata.namespace, self.place.identity
        self.remove_labelled(TASK_INSTANCE, identity.task_instance, only=identity.is_left_over, grace_s=GRACE_S)
        self.place.write_note("kubernetes", {"namespace": self.runs_in})
        token = ExecutorSafeguard.tracker.set(self)  # as the task runner does for a task's operator
        try:
            return self._ended_by(lambda: self.execute(self.place.context))
        finally:
            ExecutorSafeguard.tracker.reset(token)

    def resume_entry(self, event: Mapping[str, Any], mark: str | None, on_line: Callable[[OutputLine], None]) -> int:
        self.runs_in, self.lines = event["namespace"], _lines(on_line, mark)
        return self._ended_by(lambda: self.trigger_reentry(self.place.context, dict(event)), event)

    def remove(self, event: Mapping[str, Any] | None = None) -> None:
        """End the entry; the cluster ends the processes of the pod. See :meth:`Driver.remove`."""
        self.runs_in = event["namespace"] if event is not None else self.runs_in
        if self.runs_in is not None:  # otherwise no pod has been created, and none will be
            other = self.of(self.place)
            other.runs_in = self.runs_in
            other.remove_labelled(ATTEMPT, self.place.identity.attempt.id, grace_s=GRACE_S)
            self.place.drop_note()

    def _ended_by(self, call: Callable[[], Any], event: Mapping[str, Any] | None = None) -> int:
        """Call the provider, which may raise ``TaskDeferred``, and read from the pod how the entry ended."""
        is_deferred = False
        try:
            call()
        except TaskDeferred:
            is_deferred = True
            raise
        except (PodLaunchFailedException, PodLaunchTimeoutException) as error:
            self._raise_not_started(error)
        except PodNotFoundException as error:
            raise EntryRemoved("pod") from error
        except AirflowNotFoundException:
            raise
        except AirflowException as error:
            read = self.pod_manager.last_read
            if read is None:
                raise ClusterUnavailable(error) from error
            if event is not None and event.get("status") == "timeout":
                self._raise_timeout(read, error)
            if problem := detect_pod_terminate_early_issues(read):
                raise self._image_error(problem) from error
        finally:
            if not is_deferred:
                self._finish()
        read = self.pod_manager.last_read
        if read is None:  # the trigger has seen it succeed, perhaps because it was deleted
            raise EntryRemoved("pod")
        return self._exit_code(read)

    def _exit_code(self, pod: k8s.V1Pod) -> int:
        """Return the exit code of the entry in a pod that has ended.

        A program that is terminated may exit with 0 before it has finished: an entry that the cluster ended has not succeeded.
        """
        name, status, state = pod.metadata.name, pod.status, self._state_in(pod)
        terminated = None if state is None else state.terminated
        if status.reason == OUT_OF_TIME:
            raise PodOutOfTime(name, pod.spec.active_deadline_seconds)
        for condition in status.conditions or ():
            if condition.type == "DisruptionTarget" and condition.status == "True":
                raise PodEvicted(name, condition.reason, condition.message or status.message or "")
        if status.reason and status.phase != "Succeeded":
            raise PodEvicted(name, status.reason, status.message or "")
        if terminated is None or pod.metadata.deletion_timestamp is not None:
            raise EntryRemoved(f"pod {name}")
        if terminated.reason == "OOMKilled":
            raise OutOfMemory("Raise the memory limit in runner_options={'container_resources': …} or in the pod's template.")
        if terminated.reason in NOT_STARTED:
            program = self.invocation.argv[0] if self.invocation is not None else ""
            raise EntryNotStarted(program, terminated.message or terminated.reason)
        return ended_with(int(terminated.exit_code))

    def _state_in(self, pod: k8s.V1Pod) -> k8s.V1ContainerState | None:
        found = pod.status.container_statuses or ()
        return next((each.state for each in found if each.name == self.base_container_name), None)

    def _finish(self) -> None:
        if self.lines is not None:
            self.lines.close()
        try:
            self.remove_labelled(ATTEMPT, self.place.identity.attempt.id)
            self.place.drop_note()
        except (ApiException, HTTPError) as error:
            # What matters is how the entry ended. The next attempt deletes what is left, and the pod's deadline ends it.
            self.log.warning("The pod could not be deleted: %s", error)

    def _raise_not_started(self, error: AirflowException) -> None:
        read = self.pod_manager.last_read
        if str(error).startswith(IMAGE_PROBLEM):
            raise self._image_error(str(error)) from error
        name = read.metadata.name if read is not None else "of the entry"
        if read is not None and read.status.phase == "Failed":
            raise PodEvicted(name, read.status.reason or "Failed", read.status.message or str(error)) from error
        raise PodNotStarted(name, error) from error

    def _image_error(self, problem: str) -> EntryError:
        return image_error(str(self.image), problem.partition("\n")[2] or problem, LOG_IN)

    def _raise_timeout(self, read: k8s.V1Pod, error: AirflowException) -> None:
        state = self._state_in(read)
        if state is not None and (state.running is not None or state.terminated is not None):
            raise PodOutOfTime(read.metadata.name) from error
        raise PodNotStarted(read.metadata.name, error) from error

    def build_pod_request_obj(self, context: Context | None = None, *, dry_run: bool = False) -> k8s.V1Pod:
        """Return the pod of the provider, with exactly what the entry receives."""
        pod = super().build_pod_request_obj(context, dry_run=dry_run)
        invocation = self.invocation
        assert invocation is not None
        if pod.spec.enable_service_links is None:
            pod.spec.enable_service_links = False  # variables with the addresses of all Services in the namespace
        container = pod.spec.containers[0]
        container.command = [argument.replace("$", "$$") for argument in invocation.argv]
        container.args = None
        container.volume_mounts = self._narrowed(container.volume_mounts or (), invocation)
        container.env = [variable for variable in container.env or () if variable.name not in invocation.environment]
        if invocation.environment:
            secret: Any = Secret("env", None, pod.metadata.name)  # type: ignore[no-untyped-call]  # the provider's
            pod = secret.attach_to_pod(pod)
        return pod

    def _narrowed(self, mounts: Sequence[k8s.V1VolumeMount], invocation: Invocation) -> list[k8s.V1VolumeMount]:
        """Return the mounts, with the exchange volume's narrowed to the folder of this attempt."""
        narrowed = copy.deepcopy(list(mounts))
        shared = [mount for mount in narrowed if mount.mount_path.rstrip("/") == invocation.inside]
        if len(shared) != 1 or shared[0].sub_path_expr:
            raise ExchangeFolderNotShared(invocation.folder, NOT_MOUNTED.format(inside=invocation.inside))
        folder = invocation.folder.relative_to(self.place.root).as_posix()
        shared[0].sub_path = f"{shared[0].sub_path.rstrip('/')}/{folder}" if shared[0].sub_path else folder
        shared[0].read_only = False
        return narrowed

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Context) -> k8s.V1Pod:
        """Create the pod, then the Secret with its environment, unless the entry was stopped.

        The pod comes first because it owns the Secret; the kubelet waits for the Secret.
        """
        self.place.refuse_stopped()
        pod = super().get_or_create_pod(pod_request_obj, context)
        assert self.invocation is not None
        if self.invocation.environment:
            self._create_secret(pod, self.invocation.environment)
        self.place.refuse_stopped()
        return pod

    def _create_secret(self, pod: k8s.V1Pod, environment: Mapping[str, str]) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        uid = self.client.read_namespaced_pod(name, namespace).metadata.uid
        owner = k8s.V1OwnerReference(api_version="v1", kind="Pod", name=name, uid=uid)
        metadata = k8s.V1ObjectMeta(name=name, namespace=namespace, labels=self.place.identity.keys(), owner_references=[owner])
        secret = k8s.V1Secret(metadata=metadata, type="Opaque", immutable=True, string_data=dict(environment))
        # At the level DEBUG, the client logs each response that it reads, and this one contains the values.
        self.client.create_namespaced_secret(namespace, secret, _preload_content=False).close()

    def cleanup(self, *arguments: Any, **named: Any) -> None:
        """Log how the pod failed, and delete it. The provider would raise here, which would hide a more precise error."""
        with suppress(AirflowException):
            super().cleanup(*arguments, **named)

    @cached_property
    def pod_manager(self) -> EntryPodManager:
        """The provider's manager of the pod, which passes on the lines of the entry."""
        return EntryPodManager(self)

    def _write_logs(  # type: ignore[override]  # the provider decorates it
        self, pod: k8s.V1Pod, follow: bool = False, since_time: Any = None
    ) -> None:
        """Pass on the lines of a pod that has ended; the provider would log them without their levels."""
        self.pod_manager.fetch_container_logs(pod, self.base_container_name, follow=False, since_time=since_time)

    def remove_labelled(
        self,
        label: str,
        value: str,
        *,
        only: Callable[[Mapping[str, str]], bool] = lambda labels: True,
        grace_s: int | None = None,
    ) -> None:
        """Delete the pods that have this label and whose labels ``only`` accepts, with the Secrets that they own.

        :param grace_s: how long the pods have after SIGTERM; ``None`` for the pod's grace period.
        """
        grace = {} if grace_s is None else {"grace_period_seconds": grace_s}
        for pod in self.client.list_namespaced_pod(self.runs_in, label_selector=f"{label}={value}").items:
            if not only(pod.metadata.labels) or pod.metadata.deletion_timestamp is not None:
                continue
            self.log.info("Deleting pod %s", pod.metadata.name)
            try:
                self.client.delete_namespaced_pod(pod.metadata.name, self.runs_in, **grace)
            except ApiException as error:
                if error.status != 404:
                    raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except ConfigException as error:
            raise ClusterNotConfigured(error) from error
        except ApiException as error:
            if error.status == 404 and self.pod is not None:
                raise EntryRemoved(f"pod {self.pod.metadata.name}") from error
            if error.status is None or error.status >= 500 or error.status == 429:
                raise ClusterUnavailable(error.reason or error) from error
            explanation = _explanation(error)
            if error.status == 409 or (error.status == 403 and QUOTA in explanation):
                raise PodNotAdmitted(error.status, explanation) from error
            raise ClusterRefused(error.status, explanation) from error
        except (HTTPError, KubernetesApiException) as error:
            raise ClusterUnavailable(error) from error


class EntryPodManager(PodManager):
    """The provider's manager of a pod, which passes on the lines of the entry.

    :ivar last_read: the pod as it was last read. The provider deletes it before it raises.
    """

    def __init__(self, pod: EntryPod) -> None:
        super().__init__(kube_client=pod.client, callbacks=pod.callbacks)
        self._entry_pod = pod
        self.last_read: k8s.V1Pod | None = None

    def read_pod(self, pod: k8s.V1Pod) -> k8s.V1Pod:
        self.last_read = super().read_pod(pod)
        return self.last_read

    def _log_message(self, message: str, container_name: str, *arguments: Any) -> None:
        lines = self._entry_pod.lines
        if lines is None or container_name != self._entry_pod.base_container_name:
            super()._log_message(message, container_name, *arguments)
        else:
            lines.feed(Stream.STDOUT, message.rstrip("\n").encode() + b"\n")


def _lines(on_line: Callable[[OutputLine], None], mark: str | None) -> OutputLines:
    """Return the splitter of the output. The cluster merges both streams; the provider reads levels from the start of a line."""

    def with_level(line: OutputLine) -> None:
        on_line(line if line.logger is not None else OutputLine(line.text, _parse_log_level(line.text)))

    return OutputLines(with_level, mark=mark)


def _explanation(error: ApiException) -> str:
    """Return the message in the API server's JSON."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, TypeError, KeyError):
        return str(error.reason)
