"""The permission that each route of the app needs, from the dependencies of the route itself.

python tests/support/route_permissions.py        # writes the table in docs/security.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_snowpack.api import Services, TokenAuth, build_app
from airflow_snowpack.api.auth import reader_of
from airflow_snowpack.api.routes.builds import _actor_unless_dry
from airflow_snowpack.api.routes.service import _open_to_probes
from airflow_snowpack.api.services import actor_of, services_of, starting_actor_of

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- routes: begin -->\n", "<!-- routes: end -->\n"

METHODS = ("GET", "POST", "PUT", "DELETE")
PAGES = "`/ui` and all pages below it"

READ = "read"
CHANGE = "change"
START = "change and trigger"
PROBE = "read; open without Airflow"
OPEN = "as an unknown address; open without Airflow"
PERMISSIONS = (READ, CHANGE, START, PROBE, OPEN)

NEEDS: tuple[tuple[Callable[..., Any], str], ...] = (
    (starting_actor_of, START),
    (actor_of, CHANGE),
    (_actor_unless_dry, CHANGE),
    (_open_to_probes, PROBE),
    (services_of, READ),
    (reader_of, READ),
)


class RoutePermission(NamedTuple):
    method: str
    path: str
    permission: str


def route_permissions() -> list[RoutePermission]:
    """Return what each route needs, by path and method."""

    def not_open() -> Services:
        raise AssertionError("No route is called.")

    app = build_app(not_open, TokenAuth("0123456789abcdef"))
    every = [
        RoutePermission(method, re.sub(r":\w+}", "}", route.path), _permission(route))
        for route in app.routes
        for method in sorted(route.methods)  # type: ignore[attr-defined]
    ]
    return sorted(every, key=lambda each: (each.path.startswith("/ui"), each.path, each.method))


def _permission(route: Any) -> str:
    calls = set(_calls(route.dependant))
    return next((permission for call, permission in NEEDS if call in calls), OPEN)


def _calls(dependant: Dependant) -> Iterator[Any]:
    yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def table() -> str:
    """Return the table as Markdown: a line for each permission and method."""
    by_need: dict[tuple[str, str], list[str]] = {}
    for each in route_permissions():
        is_page = each.path.startswith("/ui") and (each.method, each.permission) == ("GET", READ)
        paths = by_need.setdefault((each.permission, each.method), [])
        if (path := PAGES if is_page else f"`{each.path}`") not in paths:
            paths.append(path)
    needs = [(permission, method) for permission in PERMISSIONS for method in METHODS if (permission, method) in by_need]
    assert len(needs) == len(by_need)
    rows = [[permission, f"`{method}`", ", ".join(by_need[permission, method])] for permission, method in needs]
    lines = [["permission", "method", "routes"], ["---"] * 3, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page_with(table: str) -> str:
    """Return docs/security.md with this table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with(table()), encoding="utf-8")
