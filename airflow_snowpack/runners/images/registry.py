"""The registry of images: each image is built exactly once, by any process of any host, and then used by all.

    images = ImageBuilds(store, target)
    found = images.ensure(ImageBuild("https://github.com/acme/score.git", "main"), build=True, holder="dag/run/task")
    if isinstance(found, Building):
        ...                    # another process builds it: wait, then call ensure again with source.at(found.commit)
    found.reference            # registry.example.com/snowpack@sha256:…

The invariants: a key identifies one content, so a branch is resolved to its commit first; at most one attempt has the lease on a
key; and the result of an attempt counts only while its fence is the row's.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.redaction import redacted
from airflow_snowpack.runners.errors import EntryCancelled
from airflow_snowpack.runners.images import git
from airflow_snowpack.runners.images.attempts import ImageAttempt, ImageAttempts
from airflow_snowpack.runners.images.builders import Builder, BuildJob, builder_for, token
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.errors import (
    DockerfileNotFound,
    ImageBuildFailed,
    ImageBuildStopped,
    ImageNotPushed,
)
from airflow_snowpack.runners.images.model import Building, Failed, ImagePolicy, ImageState, Ready
from airflow_snowpack.runners.images.records import (
    IMAGE,
    LOG,
    NOT_ENDED,
    STATE_BY_KEY,
    ImageRecords,
    audit_subject,
    requested,
    state_from,
    unbuilt,
)
from airflow_snowpack.runners.images.source import ImageBuild
from airflow_snowpack.runners.images.target import ImageTarget, image_key
from airflow_snowpack.scratch import scratch_folder
from airflow_snowpack.store import Actor, IdMaker, Store, new_id, storable, write_audit
from airflow_snowpack.store.dialect import UtcDateTime, insert
from airflow_snowpack.store.keep_alive import KeepAlive
from airflow_snowpack.store.tables.images import image_builds, image_waits

log = logging.getLogger(__name__)

USE_RECORDED_EVERY = timedelta(days=1)
"""Retention counts days from the last use; a request of a ready image usually writes nothing."""
MAX_ERROR = 2_000
"""Characters of an error that the store keeps."""
MAX_LOG = 64 * 1024
"""Characters of a build log that the store keeps."""
FINAL_KINDS = (Kind.INVALID, Kind.NOT_FOUND)
"""Another attempt at the same commit would fail in the same way."""


class ImageBuilds(ImageRecords):
    """Images by their keys, and their builds.

    :param target: the builder, and where it stores images.
    :param builder: ``None`` for the one that ``target`` names.
    :param make_id: returns the fences.
    """

    def __init__(
        self,
        store: Store,
        target: ImageTarget,
        policy: ImagePolicy | None = None,
        *,
        builder: Builder | None = None,
        make_id: IdMaker = new_id,
    ) -> None:
        super().__init__(store, policy)
        self.target = target
        self._builder = builder or builder_for(target)
        self._attempts = ImageAttempts(store, self.policy, make_id)
        self._lock = threading.RLock()  # a signal handler may call stop() while the same thread holds it
        self._running: set[Commands] = set()

    def ensure(
        self,
        source: ImageBuild,
        *,
        build: bool = False,
        holder: str | None = None,
        on_line: Callable[[str], None] | None = None,
        actor: Actor | None = None,
    ) -> Ready | Building:
        """Return the image if it is ready, and request it otherwise.

        :param build: build it now, in this call, if no other process does. The call then takes as long as the build.
        :param holder: the task instance, for people; a later try of it takes over its build at once. ``None`` for this process.
        :param on_line: receives each line of the build; ``None`` for the log of this module.
        :param actor: recorded in the audit trail if this requests an image.
        :returns: :class:`Building` while another process builds it, during a back-off, and, without ``build``, until then.
        :raises RevisionNotFound, RepositoryUnavailable: the revision could not be resolved.
        :raises BuilderUnavailable: with ``build``, the builder is not installed on this host or its daemon does not answer.
        :raises ImageBuildFailed: every attempt failed; a new one begins after ``policy.retry_failed_after``, or :meth:`forget`.
        :raises ImageBuildStopped: :meth:`stop` was called.
        """
        output = BuildLog(on_line or partial(log.info, "%s"), self._secrets(source))
        with self._stoppable(Commands(output.add)) as commands:
            pinned = self._pinned(source, commands)
            key = image_key(pinned, self.target)
            found = self._requested(key, pinned, source.revision, actor)
            if not build:
                return self._usable(found)
            if isinstance(found, Ready):
                found = self._still_here(found, commands)
            if isinstance(found, Ready | Failed):
                return self._usable(found)
            self._preflight(commands, pinned)
            attempt = self._attempts.claim(key, holder or _here(), is_task=holder is not None)
            if attempt is not None:
                self._build(attempt, pinned, output, commands)
            found = self._usable(self._state(key) or self._requested(key, pinned, source.revision, actor))
            if isinstance(found, Building) and holder is not None:
                self._enter_wait(key, holder)
            return found

    def stop(self) -> None:
        """End each running :meth:`ensure`, and return its build to the queue; callable from any thread or a signal handler."""
        with self._lock:
            for commands in self._running:
                commands.stop()

    def _pinned(self, source: ImageBuild, commands: Commands) -> ImageBuild:
        if source.is_pinned:
            return source
        with scratch_folder() as scratch:
            return source.at(git.resolve(commands, source, scratch))

    def _enter_wait(self, key: str, task: str) -> None:
        row = (IMAGE.key, sa.literal(storable(task)), sa.literal(self.store.clock(), UtcDateTime))
        # The end of the build deletes the row: it is inserted only while the build cannot end.
        waits = sa.select(*row).where(IMAGE.key == key, NOT_ENDED).with_for_update(read=True)
        self.store.execute(insert(image_waits).from_select(["key", "task", "since"], waits).on_conflict_do_nothing())

    def _state(self, key: str) -> Ready | Building | Failed | None:
        row = self.store.first(STATE_BY_KEY, {"b_key": key})
        if row is None:
            return None
        now = self.store.clock()
        if row.state == ImageState.READY and now - row.used_at >= USE_RECORDED_EVERY:
            self.store.execute(sa.update(image_builds).where(IMAGE.key == key).values(used_at=now))
        return state_from(row, now, self.policy)

    def _requested(self, key: str, source: ImageBuild, revision: str, actor: Actor | None) -> Ready | Building | Failed:
        """Return the state of an image; record a request if it is new, or if it failed long enough ago."""
        now = self.store.clock()
        found = self._state(key)
        if found is not None and not (isinstance(found, Failed) and found.retry_at <= now):
            return found
        again = sa.update(image_builds).where(
            IMAGE.key == key,
            IMAGE.state == ImageState.FAILED.value,
            IMAGE.finished_at <= now - self.policy.retry_failed_after,
        )
        entered = requested(key, source, revision, self.target, now)
        new = insert(image_builds).values(entered).on_conflict_do_nothing().returning(IMAGE.key)

        def write(conn: sa.Connection) -> None:
            if conn.execute(new).first() is not None or conn.execute(again.values(unbuilt(now))).rowcount == 1:
                write_audit(
                    conn, self.store, actor, "build_image", audit_subject(key), remote=source.remote, commit=source.revision
                )

        self.store.transact(write)
        return self._state(key) or self._requested(key, source, revision, actor)

    def _usable(self, found: Ready | Building | Failed) -> Ready | Building:
        if isinstance(found, Failed):
            row = self.store.first(LOG, {"b_key": found.key})
            raise ImageBuildFailed(found.key, found.attempts, found.error, "" if row is None else row.log)
        return found

    def _still_here(self, found: Ready, commands: Commands) -> Ready | Building | Failed:
        """Return the state of an image that is only on this host, from which it may have been removed since."""
        if self.target.registry is not None:
            return found
        requested_at = self.store.clock()
        with scratch_folder() as scratch:
            self._builder.preflight(commands, scratch)
            if self._builder.has(found.reference, commands, scratch):
                return found
        gone = sa.update(image_builds).where(
            IMAGE.key == found.key, IMAGE.state == ImageState.READY.value, IMAGE.finished_at < requested_at
        )
        self.store.execute(gone.values(unbuilt(requested_at)))
        log.warning("image_gone: %s is not on this host any more, and is built again", found.reference)
        return self._state(found.key) or found

    def _preflight(self, commands: Commands, source: ImageBuild) -> None:
        """Check what a build needs from this worker before it counts as an attempt."""
        with scratch_folder() as scratch:
            git.preflight(commands, source, scratch)
            self._builder.preflight(commands, scratch)

    def _build(self, attempt: ImageAttempt, source: ImageBuild, output: BuildLog, commands: Commands) -> None:
        """Build the image and record how that ends, unless the lease is lost: another process then records it."""
        beat, policy = partial(self._attempts.renew, attempt), self.policy
        keep = KeepAlive(beat, every=policy.heartbeat, lost_after=policy.lease, what=str(attempt), on_lost=commands.stop)
        log.info("image_build_started: %s of %s at %s", attempt, source.remote, source.revision)
        with keep as lease:
            try:
                digest = self._built(attempt, source, commands)
            except EntryCancelled:
                if lease.lost is None:
                    self._attempts.give_back(attempt)
                    raise
                log.warning("writeback_stale_attempt: %s", attempt)
                return
            except ImageNotPushed as error:
                text = _error_text(error, output)
                self._attempts.keep_unpushed(attempt, error.image_id, text, output.text())
                log.warning("image_not_pushed: %s: %s", attempt, text)
                return
            except (SnowpackError, OSError) as error:
                self._failed(attempt, error, output)
                return
            except Exception as error:
                self._failed(attempt, error, output)
                raise
            except BaseException:
                commands.stop()
                self._attempts.give_back(attempt)
                raise
            if digest is not None:
                self._attempts.succeed(attempt, self._reference(attempt.key, digest), digest, output.text())

    def _built(self, attempt: ImageAttempt, source: ImageBuild, commands: Commands) -> str | None:
        """Publish the image; return its digest, ``None`` if the lease was lost, or raise :class:`ImageNotPushed`."""
        with scratch_folder() as scratch:
            job = BuildJob(source, self.target, attempt.key, scratch / "context", scratch / "context", scratch, commands)
            if (image_id := attempt.image_id) is None or not self._builder.has(image_id, commands, scratch):
                image_id = self._image_id(job)
            if not self._attempts.renew(attempt):
                log.warning("writeback_stale_attempt: %s", attempt)
                return None
            try:
                return self._builder.publish(job, image_id)
            except CommandFailed as error:
                if self.target.registry is None:
                    raise
                raise ImageNotPushed(image_id, str(error)) from error

    def _image_id(self, job: BuildJob) -> str:
        context = git.check_out(job.commands, job.source, job.scratch)
        # Not Path.resolve(), which raises a RuntimeError for circular links.
        dockerfile = Path(os.path.realpath(context / job.source.dockerfile))
        if not dockerfile.is_file() or not dockerfile.is_relative_to(context.resolve()):
            raise DockerfileNotFound(job.source.dockerfile, job.source.revision)
        return self._builder.build(replace(job, context=context, dockerfile=dockerfile))

    def _failed(self, attempt: ImageAttempt, error: Exception, output: BuildLog) -> None:
        text = _error_text(error, output)
        is_final = isinstance(error, SnowpackError) and error.kind in FINAL_KINDS
        if self._attempts.fail(attempt, text, output.text(), is_final=is_final):
            log.warning("image_build_failed: %s (%d of %d): %s", attempt, attempt.number, self.policy.max_attempts, text)

    def _reference(self, key: str, digest: str) -> str:
        registry = self.target.registry
        return self.target.tag(key) if registry is None else f"{registry.name}@{digest}"

    def _secrets(self, source: ImageBuild) -> tuple[str | None, ...]:
        registry = self.target.registry
        of_registry = () if registry is None else (registry.password, token(registry))
        return (*source.build_args.values(), *of_registry)

    @contextmanager
    def _stoppable(self, commands: Commands) -> Iterator[Commands]:
        with self._lock:
            self._running.add(commands)
        try:
            yield commands
        except EntryCancelled as error:
            raise ImageBuildStopped from error
        finally:
            with self._lock:
                self._running.discard(commands)


def _error_text(error: Exception, output: BuildLog) -> str:
    return output.redacted(" ".join(f"{error}".split()))[:MAX_ERROR]


def _here() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


class BuildLog:
    """The log of a build: its end is kept, without secrets. No secret reaches the task log or the store.

    :param on_line: receives each line without secrets.
    :param secrets: what is hidden; of a multi-line secret, each line.
    """

    def __init__(self, on_line: Callable[[str], None], secrets: Iterable[str | None] = ()) -> None:
        self._on_line = on_line
        self._secrets = tuple({line for secret in secrets if secret for line in (secret, *secret.splitlines())})
        self._lines: deque[str] = deque()
        self._size = 0
        self._dropped = 0

    def add(self, line: str) -> None:
        line = self.redacted(line)
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size > MAX_LOG and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1
            self._dropped += 1
        self._on_line(line)

    def redacted(self, text: str) -> str:
        return redacted(text, self._secrets)

    def text(self) -> str:
        """Return the end of the log; its first line is the number of lines before it."""
        before = [f"[{self._dropped} earlier lines were dropped]"] if self._dropped else []
        return "\n".join([*before, *self._lines])[-MAX_LOG - 100 :]
