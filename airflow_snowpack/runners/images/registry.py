"""The registry of images: each image is built exactly once, by any process of any host, and then used by all.

    images = ImageBuilds(store, target)
    found = images.ensure(ImageBuild("https://github.com/acme/score.git", "main"), build=True, holder="dag/run/task")
    if isinstance(found, Building):
        ...                    # another process builds it: wait, then call ensure again with source.at(found.commit)
    found.reference            # registry.example.com/snowpack@sha256:…

The invariants: a key stands for one content, so a branch is resolved to its commit first; at most one attempt has the lease on a
key; and the result of an attempt counts only while its fence is the row's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from airflow_snowpack.runners.images.model import Building, Failed, ImagePolicy, ImageRecord, ImageState, Ready
from airflow_snowpack.runners.images.source import ImageBuild
from airflow_snowpack.runners.images.target import ImageTarget
from airflow_snowpack.store import Actor, Store
from airflow_snowpack.store.paging import Page

log = logging.getLogger(__name__)

PAGE_SIZE = 100


class ImageBuilds:
    """Images by their keys.

    :param target: the builder, and where it stores images.
    """

    def __init__(self, store: Store, target: ImageTarget, policy: ImagePolicy | None = None) -> None:
        self.store = store
        self.target = target
        self.policy = policy or ImagePolicy()

    def ensure(
        self,
        source: ImageBuild,
        *,
        build: bool = False,
        holder: str | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Ready | Building:
        """Return the image if it is ready, and request it otherwise.

        :param build: build it now, in this call, if no other process does. The call then takes as long as the build.
        :param holder: the task instance, for people; a later try of the same task instance takes its build over at once. ``None``
            for the host and process.
        :param on_line: receives each line of the build; ``None`` for the log of this module.
        :returns: :class:`Building` while another process builds it, during a back-off, and, without ``build``, until a process
            builds it.
        :raises RevisionNotFound, RepositoryUnavailable: the revision could not be resolved.
        :raises BuilderUnavailable: ``build``, and the builder is not installed on this host or its daemon does not answer.
        :raises ImageBuildFailed: every attempt failed; a new one begins after ``policy.retry_failed_after``, or :meth:`forget`.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """End the build of :meth:`ensure` and return it to the queue, from any thread; without one, do nothing."""
        raise NotImplementedError

    def states(self, keys: Collection[str]) -> dict[str, Ready | Building | Failed | None]:
        """Return the state of several images, in one statement; ``None`` for an unknown key."""
        raise NotImplementedError

    def get(self, key: str) -> ImageRecord:
        """:raises ImageBuildNotFound: no image was requested under this key."""
        raise NotImplementedError

    def list(self, *, limit: int = PAGE_SIZE, cursor: str | None = None, state: ImageState | None = None) -> Page[ImageRecord]:
        """List the images, the latest request first.

        :param cursor: ``next`` of the page before.
        :raises InvalidCursor: no page returned it.
        """
        raise NotImplementedError

    def log(self, key: str) -> str:
        """Return the end of the log of the latest attempt that ended; empty if none did.

        :raises ImageBuildNotFound: no image was requested under this key.
        """
        raise NotImplementedError

    def forget(self, key: str, *, actor: Actor | None = None) -> ImageRecord:
        """Delete the record of an image, so that its next request builds it again. A build in progress ends without a result.

        :param actor: recorded in the audit trail.
        :returns: the record as it was.
        :raises ImageBuildNotFound: no image was requested under this key.
        """
        raise NotImplementedError
