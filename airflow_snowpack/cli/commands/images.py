"""``airflow snowpack images``: the images that workers build from Git repositories; list, show, build and forget."""

import signal
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import FrameType

from airflow_snowpack.cli.changes import confirm, each
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.output import DATA, coloured, filled, is_for_people, note, print_data, print_one, print_page, printable
from airflow_snowpack.cli.values import KEY_LENGTH, find, read_period, read_poll
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import ago, duration, number
from airflow_snowpack.runners.images import (
    Building,
    ImageBuild,
    ImageBuildNotFound,
    ImageBuilds,
    ImageRecord,
    ImageRecords,
    ImageState,
    PastAttempt,
)
from airflow_snowpack.runners.images.explanation import SHORT, explain
from airflow_snowpack.store import Actor
from airflow_snowpack.wire.image import build_time, image_body, image_detail, images


@command
def list_images(args: Namespace, here: CommandContext) -> None:
    records, now = here.installation.image_records, here.now
    state = None if args.state is None else ImageState(args.state)
    page = records.list(limit=args.limit, cursor=args.cursor, state=state)
    print_page(args, images(records.policy, now), page.items, page.next, now, filters=(args.state,))


@command
def show(args: Namespace, here: CommandContext) -> None:
    records = here.installation.image_records
    image = _find(records, args.key)
    if args.log:
        _print_log(records.log(image.key))
        return
    _print_image(args.output, records, image)


def _find(records: ImageRecords, given: str) -> ImageRecord:
    return find(records.get, records.keys_beginning, given, "an image key", KEY_LENGTH)


def _print_log(log: str) -> None:
    if log:
        print(printable(log))
    else:
        note("No attempt has ended. While an image is being built, its log is that of the task or command that builds it.")


@command
def build(args: Namespace, here: CommandContext) -> ExitCode | None:
    source = _source(args)
    poll, timeout = read_poll(args.poll), None if args.timeout is None else read_period("--timeout", args.timeout)
    with stopped_by_sigterm(here.installation.image_builds) as builds:
        image = build_or_wait(builds, source, here.actor, poll=poll, timeout=timeout)
        if image.state is not ImageState.READY:
            note(f"Timed out after {args.timeout}. Show the image with: airflow snowpack images show {image.key[:SHORT]}")
            return ExitCode.TIMEOUT
        if is_for_people(args.output):
            print(image.reference)
        else:
            _print_image(args.output, builds, image)
    return None


def build_or_wait(
    builds: ImageBuilds,
    source: ImageBuild,
    actor: Actor | None = None,
    *,
    poll: timedelta,
    timeout: timedelta | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> ImageRecord:
    """Build an image, or wait while another process builds it.

    :returns: the image, which is not ready if the time was up.
    :param actor: recorded in the audit trail if this requests the image.
    :raises ImageError: it cannot be built.
    """
    clock, reason = builds.store.clock, ""
    give_up = None if timeout is None else clock() + timeout
    while isinstance(found := builds.ensure(source, build=True, on_line=_print_line, actor=actor), Building):
        source, now = source.at(found.commit), clock()  # the branch may move while this waits
        try:
            image = builds.get(found.key)
        except ImageBuildNotFound:
            continue  # it was forgotten in this moment, and is requested again
        if reason != (reason := str(explain(image, builds.policy, now))):
            note(reason)
        if give_up is not None and now >= give_up:
            return image
        sleep(poll.total_seconds())
    return builds.get(found.key)


@contextmanager
def stopped_by_sigterm(builds: ImageBuilds) -> Iterator[ImageBuilds]:
    """Make SIGTERM return the build to the queue, as Ctrl-C does."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield builds
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_line(line: str) -> None:
    note(printable(line))


@command
def forget(args: Namespace, here: CommandContext) -> ExitCode | None:
    records, now = here.installation.image_records, here.now
    found = list({image.key: image for image in (_find(records, given) for given in args.keys)}.values())
    names = ", ".join(image.key[:SHORT] for image in found)
    confirm(f"Forget {names}? Tasks that need {_it(len(found))} build {_it(len(found))} again.", yes=args.yes)
    forgotten, code = each(found, lambda image: records.forget(image.key, actor=here.actor))
    if args.output in DATA:
        print_data(args.output, [image_body(image, records.policy, now) for image in forgotten])
        return code
    for image in forgotten:
        left = f" The image stays where it is: {image.reference}." if image.reference else ""
        print(f"Forgot {image.key[:SHORT]} of {image.remote}.{left}" if is_for_people(args.output) else image.key)
    return code


def _it(count: int) -> str:
    return "it" if count == 1 else "them"


def _source(args: Namespace) -> ImageBuild:
    values = {}
    for given in args.build_arg or ():
        name, separator, value = given.partition("=")
        if not separator:
            raise UsageProblem(f"--build-arg {given[:60]!r} has no value. Pass NAME=VALUE, such as PYTHON=3.12.")
        values[name] = value
    return ImageBuild(args.remote, args.revision, args.dockerfile, values)


def _print_image(output: str, records: ImageRecords, image: ImageRecord) -> None:
    body, now = image_detail(records, image), records.store.clock()
    waits, history = records.waits(image.key), [_attempt_line(attempt, now) for attempt in records.attempts(image.key)]
    fields = _fields(image, body["explanation"], now) | {"history": "\n".join(history)}
    more = [f"and {number(image.waiting - len(waits))} more"] if image.waiting > len(waits) else []
    tasks = [f"{wait.task}, since {ago(wait.since, now)}" for wait in waits]
    print_one(output, body, filled(fields | {"waiting tasks": "\n".join([*tasks, *more])}))


def _attempt_line(attempt: PastAttempt, now: datetime) -> str:
    took = duration((attempt.ended_at or now) - attempt.started_at)
    error = f": {attempt.error}" if attempt.error else ""
    return f"attempt {attempt.number} {attempt.outcome}, {ago(attempt.started_at, now)}, in {took}, by {attempt.holder}{error}"


def _fields(image: ImageRecord, explanation: str, now: datetime) -> dict[str, object]:
    took = build_time(image)
    return {
        "image": image.key,
        "repository": image.remote,
        "revision": image.revision,
        "commit": image.commit,
        "dockerfile": image.dockerfile,
        "build arguments": ", ".join(image.build_args),
        "platform": image.platform,
        "place": image.place,
        "state": coloured(image.state, image.state),
        "reference": image.reference,
        "attempts": str(image.attempts),
        "requested": ago(image.requested_at, now),
        "last used": ago(image.used_at, now),
        "build time": None if took is None else duration(took.at(now)),
        "built by": image.holder,
        "explanation": explanation,
        "error": image.error,
    }
