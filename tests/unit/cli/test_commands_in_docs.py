"""Every `airflow snowpack` command that a page of the documentation names exists."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
NAMED = re.compile(r"airflow snowpack ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)")


def test_every_command_in_the_documentation_exists() -> None:
    from airflow_snowpack.cli.main import get_cli_commands

    (snowpack,) = get_cli_commands()
    groups = {group.name: {command.name for command in getattr(group, "subcommands", ())} for group in snowpack.subcommands}

    named = {(page.name, *match[1].split()) for page in PAGES for match in NAMED.finditer(page.read_text())}

    assert len(named) > 30
    unknown = [
        (page, group, *command)
        for page, group, *command in named
        if group not in groups or (command and groups[group] and command[0] not in groups[group])
    ]
    assert unknown == []
