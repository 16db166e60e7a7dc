"""The code blocks of README and of "Getting started", as a newcomer copies them."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
README, GETTING_STARTED = "README.md", "docs/getting-started.md"


def python_blocks(page: str) -> list[str]:
    """Return the DAGs of a page."""
    return _blocks(page, "python")


def shell_lines(page: str) -> list[str]:
    """Return the lines of a page's shell blocks, without comments."""
    lines = (line.partition("  #")[0].rstrip() for block in _blocks(page, "bash") for line in block.splitlines())
    return [line for line in lines if line]


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (REPOSITORY / page).read_text(), re.DOTALL | re.MULTILINE)
