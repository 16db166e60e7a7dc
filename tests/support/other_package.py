"""The distribution of another team, as ``pip install`` leaves it: one module, and entry points that name its classes."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path


def code_block(section: str, language: str) -> str:
    """Return the first block in a language of a section of the docs."""
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def install(folder: Path, module: str, code: str, entry_points: str) -> None:
    """Write it to a folder, which the test adds to the path.

    :param entry_points: in the format of ``entry_points.txt``.
    """
    (folder / f"{module}.py").write_text(code)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(textwrap.dedent(entry_points))
