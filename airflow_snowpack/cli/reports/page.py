"""Renders the templates of the reports, with the stylesheet of the pages inside."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from airflow_snowpack import humanize
from airflow_snowpack.api.pages.markup import content, environment
from airflow_snowpack.cli.errors import UsageProblem


@cache
def _environment() -> Environment:
    # The charts are those of the pages.
    found = environment("airflow_snowpack.cli.reports", "airflow_snowpack.api.pages")
    found.filters |= {"clock": humanize.timestamp, "percent": humanize.percent}
    return found


def render(template: str, **values: Any) -> str:
    """Return the HTML of a report."""
    # It is part of this package and contains no end tag, so it needs no escaping.
    style = Markup(content("page.css").decode())
    return _environment().get_template(template).render(style=style, **values)


def write(path: Path, text: str) -> None:
    """Write a report whole, or not at all.

    :raises UsageProblem: the file cannot be written.
    """
    written = path.parent / f".{path.name}.{os.getpid()}"
    try:
        try:
            written.write_text(text, encoding="utf-8")
            written.replace(path)
        finally:
            written.unlink(missing_ok=True)
    except OSError as error:
        raise UsageProblem(
            f"The report {str(path)!r} cannot be written: {error.strerror or error}. Name another file."
        ) from error
