"""Build the image of an entry in the first task that needs it, while all other tasks wait for it in the triggerer.

    image = BuiltImage(self).ensure(context, ImageBuild("https://github.com/acme/score.git", "main"))

:mod:`airflow_snowpack.runners.images` decides which task builds, and what happens when that task is killed.
"""

from __future__ import annotations

from typing import NoReturn

from airflow.sdk import Context

from airflow_snowpack.operators.base import UsesStore, owner_of
from airflow_snowpack.runners.images import Building, ImageBuild, ImageBuildNotFound, ImageBuilds, Ready
from airflow_snowpack.runners.images.explanation import explain
from airflow_snowpack.triggers import ImageBuildTrigger


class BuiltImage:
    """The image of a task, which continues in its method ``image_ended`` if it has to wait.

    :param task: its store has the record of the image.
    """

    def __init__(self, task: UsesStore) -> None:
        self._task = task
        self._builds: ImageBuilds | None = None

    def ensure(self, context: Context, build: ImageBuild) -> str:
        """Return the reference of the image, after building it in this task if no other task does.

        :raises TaskDeferred: another task builds it.
        :raises ImageBuildFailed: every attempt failed.
        """
        with self._task.installation() as hook:
            self._builds = builds = hook.installation.image_builds
            try:
                found = builds.ensure(build, build=True, holder=owner_of(context), on_line=self._log_line)
            finally:
                self._builds = None
            if isinstance(found, Ready):
                self._task.log.info("The image is %s, built from %s at %s", found.reference, build.remote, found.commit)
                return found.reference
            return self._wait_for(found, builds)

    def stop(self) -> None:
        """Return the running build, if any, to the queue; callable from any thread."""
        if (builds := self._builds) is not None:
            builds.stop()

    def _wait_for(self, image: Building, builds: ImageBuilds) -> NoReturn:
        try:
            self._task.log.info("%s", explain(builds.get(image.key), builds.policy, builds.store.clock()))
        except ImageBuildNotFound as error:  # the trigger resumes the task, which requests the image again
            self._task.log.info("%s", error)
        trigger = ImageBuildTrigger(image.key, self._task.store_conn_id)
        self._task.defer(trigger=trigger, method_name="image_ended", kwargs={"commit": image.commit})
        raise AssertionError("defer() raises")

    def _log_line(self, line: str) -> None:
        self._task.log.info("%s", line)
