"""What goes wrong with containers and pods that run entries, beyond the errors of the entries themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from airflow_snowpack.errors import Kind
from airflow_snowpack.runners.errors import EntryError, EntryFailed


class InvalidRunnerOption(EntryError, kind=Kind.INVALID):
    """Invalid option of a runner."""

    def __init__(self, name: str, instead: str) -> None:
        super().__init__(f"runner_options has {name!r}, which the task sets itself: {instead}.")


class UnknownRunnerOption(EntryError, kind=Kind.INVALID):
    """The provider's operator has no such argument."""

    def __init__(self, name: str, operator: str) -> None:
        super().__init__(
            f"runner_options has {name!r}, which is no argument of the provider's {operator}. Check its spelling. What every "
            "operator has, such as execution_timeout, is an argument of the task."
        )


def check_known_options(options: Iterable[str], operator: type) -> None:
    """Check options when the task runs, since DAG files do not import the provider.

    :raises UnknownRunnerOption: an option is not an argument of the provider's operator.
    """
    known = inspect.signature(operator.__init__).parameters  # type: ignore[misc]
    for name in options:
        if name not in known:
            raise UnknownRunnerOption(name, operator.__name__)


class DockerUnavailable(EntryError, kind=Kind.UNAVAILABLE):
    """The Docker daemon does not answer."""

    def __init__(self, urls: Iterable[str], problem: object) -> None:
        super().__init__(
            f"The Docker daemon at {', '.join(urls)} cannot be used: {_first_line(problem)}. Start it on the worker, or set "
            "runner_options={'docker_url': …} or the worker's variable DOCKER_HOST to one that the worker reaches."
        )


class DockerRefused(EntryError, kind=Kind.MISCONFIGURED):
    """The Docker daemon refused a request."""

    def __init__(self, problem: object) -> None:
        super().__init__(f"The Docker daemon refused the container: {_first_line(problem)}. Correct the task's runner_options.")


class ExchangeFolderNotShared(EntryError, kind=Kind.MISCONFIGURED):
    """The container or the pod cannot mount the exchange folder."""

    def __init__(self, folder: object, advice: str) -> None:
        super().__init__(f"The exchange folder {str(folder)!r} cannot be mounted: {advice.rstrip('.')}.")


class ImageNotFound(EntryError, kind=Kind.NOT_FOUND):
    """The image of the entry does not exist, or may not be pulled."""

    def __init__(self, image: str, problem: object, advice: str) -> None:
        super().__init__(f"The image {image!r} cannot be pulled: {_first_line(problem)}. Correct its name, push it, or {advice}.")


class ImageNotPulled(EntryError, kind=Kind.UNAVAILABLE):
    """The image of the entry could not be pulled now."""

    def __init__(self, image: str, problem: object) -> None:
        super().__init__(
            f"The image {image!r} could not be pulled: {_first_line(problem)}. Check that its registry is available."
        )


class OutOfMemory(EntryFailed, kind=Kind.FAILED):
    """The entry exceeded its memory limit."""

    def __init__(self, advice: str) -> None:
        super().__init__(-9, f"It exceeded the memory limit. {advice}")


class EntryRemoved(EntryError, kind=Kind.FAILED):
    """The container or the pod was removed while the entry ran."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The {what} was removed before its entry ended. A later attempt of the task removes it, and so may an administrator "
            "or the cluster."
        )


class ClusterUnavailable(EntryError, kind=Kind.UNAVAILABLE):
    """The Kubernetes API does not answer."""

    def __init__(self, problem: object) -> None:
        super().__init__(
            f"The Kubernetes API cannot be reached: {_first_line(problem)}. Check the cluster, and the connection that "
            "runner_options={'kubernetes_conn_id': …} names."
        )


class ClusterNotConfigured(EntryError, kind=Kind.MISCONFIGURED):
    """The worker has no credentials for a Kubernetes cluster."""

    def __init__(self, problem: object) -> None:
        super().__init__(
            f"The worker has no usable configuration of a Kubernetes cluster: {_first_line(problem)}. Create the connection that "
            "runner_options={'kubernetes_conn_id': …} names, or run the worker in the cluster with a service account."
        )


class ClusterRefused(EntryError, kind=Kind.MISCONFIGURED):
    """The Kubernetes API refused a request."""

    def __init__(self, status: int, problem: object) -> None:
        advice = (
            "Grant the worker's service account the verbs of docker/kubernetes/entry-role.yaml"
            if status in (401, 403)
            else "Correct the task's runner_options or its pod template"
        )
        super().__init__(f"The Kubernetes API refused the pod with status {status}: {_first_line(problem)}. {advice}.")


class PodNotAdmitted(EntryError, kind=Kind.UNAVAILABLE):
    """The cluster does not admit the pod now."""

    def __init__(self, status: int, problem: object) -> None:
        super().__init__(
            f"The cluster does not admit the pod now, with status {status}: {_first_line(problem)}. A retry requests it again. "
            "If the quota of the namespace is exceeded often, raise it, or give the tasks an Airflow pool."
        )


class PodNotStarted(EntryError, kind=Kind.UNAVAILABLE):
    """The pod did not start in time."""

    def __init__(self, pod: str, problem: object) -> None:
        super().__init__(
            f"The pod {pod} has not started: {_first_line(problem)}. Its events in the task log show why; "
            "runner_options={'startup_timeout_seconds': …} is how long it may take."
        )


class PodEvicted(EntryError, kind=Kind.FAILED):
    """The cluster ended the pod."""

    def __init__(self, pod: str, reason: str, message: str) -> None:
        super().__init__(
            f"The cluster ended the pod {pod} before its entry did ({reason}): {_first_line(message)}. A retry runs it again; "
            "requests that equal the limits make an eviction less likely."
        )


class PodOutOfTime(EntryError, kind=Kind.FAILED):
    """The pod reached its time limit."""

    def __init__(self, pod: str, limit_s: int | None = None) -> None:
        after = "its active deadline" if limit_s is None else f"its limit of {limit_s} s"
        super().__init__(f"The pod {pod} was ended at {after}. Raise the task's execution_timeout, or make the entry faster.")


NO_SUCH_IMAGE = re.compile(
    r"not found|(manifest|name) unknown|unknown authority|denied|unauthori[sz]ed|forbidden|no such image|does not exist|invalid",
    re.IGNORECASE,
)
# Container runtimes prefix most problems, also those of the network, with a status that explains nothing.
STATUS = re.compile(r"rpc error: code = \w+ desc = ")


def image_error(image: str, problem: object, advice: str) -> ImageNotFound | ImageNotPulled:
    """Return the error for an image that cannot be pulled: whether a retry may help follows from the registry's message.

    :param advice: how to log in to a private registry.
    """
    if NO_SUCH_IMAGE.search(STATUS.sub("", str(problem)).replace(image, "")):
        return ImageNotFound(image, problem, advice)
    return ImageNotPulled(image, problem)


def _first_line(problem: object) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:500].rstrip(".")
