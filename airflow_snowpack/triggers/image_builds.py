"""Wait for an image that another process builds, or take its build over when that process is gone.

    self.defer(trigger=ImageBuildTrigger(found.key, self.store_conn_id), method_name="image_ended", ...)

The invariants: a round of the triggers of a process is one statement, however many tasks wait for however many images; and while
no process builds an image, one waiting task per round is resumed to build it, not all of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from airflow_snowpack.triggers.wait_for import WaitFor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_snowpack.runners.images import Building, Failed, Ready
    from airflow_snowpack.store import Store

READY, FAILED, FREE, FORGOTTEN = "ready", "failed", "free", "forgotten"


@dataclass(eq=False, repr=False)
class ImageBuildTrigger(WaitFor):
    """Waits until an image is ready, has failed, or can be built. Fires with its ``key`` and its ``state``.

    The state is ``ready``, ``failed``, ``forgotten`` if the record of the image was deleted, or ``free`` if no process builds it.
    Of the triggers that wait for a free image, the one that has waited longest fires; the others wait for its build.

    :param key: of the image, see :class:`~airflow_snowpack.runners.images.Building`.
    """

    key: str
    store_conn_id: str | None = None
    poll_seconds: float = 10.0

    _began: float = field(default_factory=monotonic, init=False)

    async def ask(self) -> dict[str, Any] | None:
        """Return the state of an image that the task need not wait for."""
        state = await self.store.get(_read_states, self)
        return None if state is None else {"key": self.key, "state": state}

    @property
    def place_in_line(self) -> float:
        """The one with the lowest place builds a free image."""
        return self._began


def _read_states(store: Store, waiting: frozenset[ImageBuildTrigger]) -> dict[ImageBuildTrigger, str | None]:
    """Return the state of each trigger's image, ``None`` for those that wait on."""
    from airflow_snowpack.runners.images import ImageBuilds, ImageTarget

    by_key: defaultdict[str, list[ImageBuildTrigger]] = defaultdict(list)
    for each in waiting:
        by_key[each.key].append(each)
    found = ImageBuilds(store, ImageTarget()).states(by_key)
    return {trigger: state for key, triggers in by_key.items() for trigger, state in _answers(found[key], triggers)}


def _answers(
    image: Ready | Building | Failed | None, triggers: Iterable[ImageBuildTrigger]
) -> Iterable[tuple[ImageBuildTrigger, str | None]]:
    from airflow_snowpack.runners.images import Building, Ready

    match image:
        case Building():
            builder = min(triggers, key=lambda each: each.place_in_line) if image.is_free else None
            return [(each, FREE if each is builder else None) for each in triggers]
        case None:
            state = FORGOTTEN
        case _:
            state = READY if isinstance(image, Ready) else FAILED
    return [(each, state) for each in triggers]
