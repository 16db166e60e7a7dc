"""Why an image is not ready yet, and what comes next: one answer for the task log, the API, the pages and the command line.

    log.info("%s", explain(images.get(found.key), images.policy, store.clock()))
    # The image of https://github.com/acme/score.git at 4b825dc642cb (main) is being built by flights/r1/score since …

It reads what is on record about the image, and queries no builder.
"""

from __future__ import annotations

from datetime import datetime

from airflow_snowpack.humanize import Text, plural
from airflow_snowpack.runners.images.model import ImagePolicy, ImageRecord, ImageState

SHORT_COMMIT = 12
ON_ONE_HOST = "host:"


def explain(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Text:
    """Explain what an image waits for, who builds it, or how its build ended."""
    match image.state:
        case ImageState.READY:
            return _ready(image)
        case ImageState.BUILDING:
            return _building(image, policy, now)
        case ImageState.WAITING:
            return _waiting(image, policy, now)
        case ImageState.FAILED:
            return _failed(image, policy, now)


def name_of(image: ImageRecord) -> str:
    """Return what an image is built from: ``the image of https://github.com/acme/score.git at 4b825dc642cb (main)``."""
    revision = "" if image.revision == image.commit else f" ({image.revision})"
    return f"the image of {image.remote} at {image.commit[:SHORT_COMMIT]}{revision}"


def host_of(image: ImageRecord) -> str | None:
    """Return the only host that has the image; ``None`` for an image in a registry."""
    return image.place.removeprefix(ON_ONE_HOST).rpartition("/")[0] if image.place.startswith(ON_ONE_HOST) else None


def _ready(image: ImageRecord) -> Text:
    host = host_of(image)
    scope = "" if host is None else f" It exists on the host {host} only."
    return Text(f"{_begin(image)} is ready since ", image.finished_at or image.requested_at, f": {image.reference}.{scope}")


def _building(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Text:
    attempt = f"attempt {image.attempts} of {policy.max_attempts}"
    if image.lease_until is not None and image.lease_until <= now:
        lost = f": its builder {image.holder} stopped sending heartbeats. {_next_builder(image)}"
        return Text(f"{_begin(image)} is not ready. The lease of {attempt} ran out at ", image.lease_until, lost)
    return Text(
        f"{_begin(image)} is being built by {image.holder} since ", image.started_at or image.requested_at, f" ({attempt})."
    )


def _waiting(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Text:
    if image.attempts == 0:
        return Text(f"{_begin(image)} was requested, and no process builds it. {_next_builder(image)}")
    ended = f"{_begin(image)} is not ready: attempt {image.attempts} of {policy.max_attempts} "
    ended += "was stopped. " if image.error is None else f"failed: {_sentence(image.error)} "
    if image.available_at is not None and image.available_at > now:
        return Text(ended, "The next attempt starts at ", image.available_at, " at the earliest.")
    return Text(ended, _next_builder(image))


def _failed(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Text:
    failed = f"{_begin(image)} could not be built in {plural(image.attempts, 'attempt')}: {_sentence(image.error or '')} "
    forget = f"Fix the cause, then run `airflow snowpack images forget {image.key}`. "
    again = (image.finished_at or image.requested_at) + policy.retry_failed_after
    if again <= now:
        return Text(failed, forget, "The next task that needs it tries again as well.")
    return Text(failed, forget, "A task that needs it tries again from ", again, ".")


def _begin(image: ImageRecord) -> str:
    name = name_of(image)
    return name[0].upper() + name[1:]


def _next_builder(image: ImageRecord) -> str:
    host = host_of(image)
    return f"The next task {'' if host is None else f'on the host {host} '}that needs it builds it."


def _sentence(error: str) -> str:
    """Return the first line of an error as a sentence."""
    line = error.strip().partition("\n")[0]
    return line if line.endswith(".") else f"{line}."
