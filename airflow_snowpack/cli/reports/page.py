"""Renders the templates of the reports, with the stylesheet of the pages inside."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from airflow_snowpack import humanize
from airflow_snowpack.api.pages.markup import content
from airflow_snowpack.cli.errors import UsageProblem


@cache
def _environment() -> Environment:
    environment = Environment(
        # The charts are those of the pages.
        loader=ChoiceLoader([PackageLoader("airflow_snowpack.cli.reports"), PackageLoader("airflow_snowpack.api.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": humanize.number,
        "counted": humanize.plural,
        "size": humanize.size,
        "duration": humanize.duration,
        "clock": humanize.timestamp,
        "action": lambda name: name.replace("_", " "),
        "percent": lambda share: f"{share:.0%}",
    }
    return environment


def render(template: str, **values: Any) -> str:
    """Return the HTML of a report."""
    # It is part of this package and contains no end tag, so it needs no escaping.
    style = Markup(content("page.css").decode())
    return _environment().get_template(template).render(style=style, **values)


def write(path: Path, text: str) -> None:
    """Write a report whole, or not at all.

    :raises UsageProblem: the file cannot be written.
    """
    try:
        folder = path.absolute().parent
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=f".{path.name}.", delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).chmod(0o666 & ~_umask())
        os.replace(file.name, path)
    except OSError as error:
        raise UsageProblem(
            f"The report {str(path)!r} cannot be written: {error.strerror or error}. Name another file."
        ) from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
