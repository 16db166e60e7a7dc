"""The demo's own folder: empty at the start, left in place at the end, for one demo at a time.

with fresh_folder(Path(".state/demo").absolute()) as home:
    ...
"""

from __future__ import annotations

import fcntl
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from examples.demo.errors import DemoRuns, NotADemoFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = ".airflow-snowpack-demo"


@contextmanager
def fresh_folder(home: Path) -> Iterator[Path]:
    """An empty folder that no other demo uses meanwhile.

    :raises DemoRuns: one does.
    :raises NotADemoFolder: it has something in it, and no demo made it.
    """
    home.mkdir(parents=True, exist_ok=True)
    mark = home / MARK
    if any(home.iterdir()) and not mark.exists():
        raise NotADemoFolder(home)
    with mark.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoRuns(home) from None
        for old in home.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            elif old != mark:
                old.unlink()
        yield home
