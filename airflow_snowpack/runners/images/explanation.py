"""Why an image is not ready yet, and what comes next: one answer for the task log, the API, the pages and the command line.

    log.info("%s", explain(images.get(found.key), images.policy, store.clock()))
    # The image of https://github.com/acme/score.git at 4b825dc642cb (main) is being built by flights/r1/score (attempt 1 of 3, …

It reads the record of the image, and queries no builder.
"""

from __future__ import annotations

from datetime import datetime

from airflow_snowpack.humanize import Text, plural, sentence
from airflow_snowpack.runners.images.model import ImagePolicy, ImageRecord, ImageState

SHORT = 12
"""Characters of a commit or key that people read."""
ON_ONE_HOST = "host:"


def explain(image: ImageRecord, policy: ImagePolicy, now: datetime, subject: str | None = None) -> Text:
    """Explain what an image waits for, which process builds it, or how its build ended.

    :param subject: the beginning of the sentence, such as ``It``; ``None`` for what the image is built from.
    """
    match image.state:
        case ImageState.READY:
            explained = _ready(image)
        case ImageState.BUILDING:
            explained = _building(image, policy, now)
        case ImageState.WAITING:
            explained = _waiting(image, policy, now)
        case ImageState.FAILED:
            explained = _failed(image, policy, now)
    return Text(f"{_name_of(image) if subject is None else subject} ", *explained)


def host_of(image: ImageRecord) -> str | None:
    """Return the only host that has the image; ``None`` for an image in a registry."""
    return image.place.removeprefix(ON_ONE_HOST).rpartition("/")[0] if image.place.startswith(ON_ONE_HOST) else None


def _name_of(image: ImageRecord) -> str:
    revision = "" if image.revision == image.commit else f" ({image.revision})"
    return f"The image of {image.remote} at {image.commit[:SHORT]}{revision}"


Parts = tuple[str | datetime, ...]


def _ready(image: ImageRecord) -> Parts:
    host = host_of(image)
    scope = "" if host is None else f" It exists only on the host {host}."
    return ("has been ready since ", image.finished_at or image.requested_at, f": {image.reference}.{scope}")


def _building(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Parts:
    attempt = f"attempt {image.attempts} of {policy.max_attempts}"
    if image.lease_until is None or image.lease_until > now:
        started = image.started_at or image.requested_at
        return (f"is being built by {image.holder} ({attempt}, started at ", started, ").")
    is_last = image.attempts >= policy.max_attempts
    then = "No attempt is left, so the next task that needs it fails." if is_last else _next_builder(image)
    lost = f": its builder {image.holder} stopped sending heartbeats. {then}"
    return (f"is not ready. The lease of {attempt} ran out at ", image.lease_until, lost)


def _waiting(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Parts:
    if image.digest is not None:
        pushed = f"is not ready: {sentence(image.error or '')} "
        if image.available_at is not None and image.available_at > now:
            return (pushed, "The push is retried at ", image.available_at, " at the earliest.")
        return (pushed, "The next task that needs it retries the push.")
    if image.attempts == 0:
        return (f"was requested, and no process builds it. {_next_builder(image)}",)
    failed = f"is not ready: attempt {image.attempts} of {policy.max_attempts} failed: {sentence(image.error or '')} "
    if image.available_at is not None and image.available_at > now:
        return (failed, "The next attempt starts at ", image.available_at, " at the earliest.")
    return (failed, _next_builder(image))


def _failed(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Parts:
    failed = f"could not be built in {plural(image.attempts, 'attempt')}: {sentence(image.error or '')} "
    forget = f"Fix the cause, then run `airflow snowpack images forget {image.key[:SHORT]}`. "
    again = (image.finished_at or image.requested_at) + policy.retry_failed_after
    if again <= now:
        return (failed, forget, "The next task that needs it tries again as well.")
    return (failed, forget, "A task that needs it tries again from ", again, ".")


def _next_builder(image: ImageRecord) -> str:
    host = host_of(image)
    return f"The next task {'' if host is None else f'on the host {host} '}that needs it builds it."
