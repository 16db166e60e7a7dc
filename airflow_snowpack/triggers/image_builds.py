"""Wait for an image that another process builds, or take over its build when that process is gone.

    self.defer(trigger=ImageBuildTrigger(found.key, self.store_conn_id), method_name="image_ended", ...)

The invariants: a round of a process's triggers is one statement, however many tasks wait for however many images; and while no
process builds an image, only one waiting task at a time is resumed to build it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.triggers.wait_for import WaitFor

if TYPE_CHECKING:
    from airflow_snowpack.runners.images import Building, Failed, Ready
    from airflow_snowpack.store import Store

READY, FAILED, FREE, FORGOTTEN = "ready", "failed", "free", "forgotten"
RESUME_ANOTHER_AFTER_S = 60.0
"""How long a resumed task may take to get a worker slot and claim the image, before another one is resumed."""
_resumed_at: dict[str, float] = {}


@dataclass(eq=False, repr=False)
class ImageBuildTrigger(WaitFor):
    """Waits until an image is ready, has failed, or can be built. Fires with its ``key`` and its ``state``.

    The state is ``ready``, ``failed``, ``forgotten`` if the image's record was deleted, or ``free`` if no process builds it. Of
    the triggers that wait for a free image, the one that has waited longest fires; the others wait for its build.

    :param key: of the image, see :class:`~airflow_snowpack.runners.images.Building`.
    """

    key: str
    store_conn_id: str | None = None
    poll_seconds: float = 10.0

    began_at: float = field(default_factory=time.monotonic, init=False)

    async def ask(self) -> dict[str, Any] | None:
        """Return the state of an image if the task need not wait for it."""
        state = await self.store.get(_read_states, self)
        return None if state is None else {"key": self.key, "state": state}


def _read_states(store: Store, waiting: frozenset[ImageBuildTrigger]) -> dict[ImageBuildTrigger, str | None]:
    """Return the state of each trigger's image; ``None`` for triggers that continue to wait."""
    from airflow_snowpack.runners.images import ImageRecords

    by_key: defaultdict[str, list[ImageBuildTrigger]] = defaultdict(list)
    for each in waiting:
        by_key[each.key].append(each)
    images = ImageRecords(store).states(by_key)
    found: dict[ImageBuildTrigger, str | None] = {}
    for key, triggers in by_key.items():
        found |= dict.fromkeys(triggers, _state_of(images[key]))
        if _is_free(images[key]) and _may_resume(key):
            found[min(triggers, key=lambda each: each.began_at)] = FREE
    return found


def _state_of(image: Ready | Building | Failed | None) -> str | None:
    from airflow_snowpack.runners.images import Building, Ready

    match image:
        case Building():
            return None
        case None:
            return FORGOTTEN
        case _:
            return READY if isinstance(image, Ready) else FAILED


def _is_free(image: Ready | Building | Failed | None) -> bool:
    from airflow_snowpack.runners.images import Building

    return isinstance(image, Building) and image.is_free


def _may_resume(key: str) -> bool:
    """Return whether a task may be resumed to build an image; if so, record it."""
    now = time.monotonic()
    for resumed in [resumed for resumed, at in _resumed_at.items() if now - at >= RESUME_ANOTHER_AFTER_S]:
        del _resumed_at[resumed]
    if key in _resumed_at:
        return False
    _resumed_at[key] = now
    return True
