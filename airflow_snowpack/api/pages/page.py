"""What every page has: its user, banners (drain mode, missing background roles), and errors as pages.

    @router.get("/locks")
    def locks(page: Here) -> HTMLResponse:
        return page.render("locks.html", "Locks", locks=page.services.jobs.locks.list())

The invariant: a browser that requests a page gets a page, also for errors, and runs only the package's own script.
"""

import json
import re
from collections.abc import Callable, Container, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.types import Scope

from airflow_snowpack.api.auth import Reader, TokenAuth, User
from airflow_snowpack.api.pages.markup import template, versioned
from airflow_snowpack.api.pages.navigation import MENU, airflow_root
from airflow_snowpack.api.problems import problem_of
from airflow_snowpack.api.roles import read_roles
from airflow_snowpack.api.routing import Threaded
from airflow_snowpack.api.services import Open, Services
from airflow_snowpack.store import AuditEntry, AuditTrail, InvalidCursor, Page as ListPage

T = TypeVar("T")
State = TypeVar("State", bound=StrEnum)

CHANGES = 20
LONGEST = 500
"""Characters of a parameter."""
SHORT_ID = re.compile("[0-9a-f]{8,31}")
"""What lists show of an id, which has 32 characters or more."""


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page that is being made."""

    request: Request
    user: User
    services: Services

    @property
    def now(self) -> datetime:
        """The store's clock."""
        return self.services.jobs.store.clock()

    def asked(self, name: str) -> str:
        """A parameter of the address, trimmed; empty when it is not there. No database takes a NUL character."""
        return self.request.query_params.get(name, "").replace("\x00", "").strip()[:LONGEST]

    def filter(self, *names: str) -> dict[str, str]:
        return {name: self.asked(name) for name in names}

    def choice(self, name: str, choices: Container[str]) -> str:
        """Return a parameter that must be one of the choices; empty for anything else."""
        given = self.asked(name)
        return given if given in choices else ""

    def number(self, name: str, digits: int = 18) -> int | None:
        """Return a parameter that must be a whole number without a sign; ``None`` for anything else."""
        given = self.asked(name)
        return int(given) if given.isascii() and given.isdigit() and len(given) <= digits else None

    def listed(self, read: Callable[[str | None], T]) -> T:
        """Read the page of a list that begins at the address's cursor; the first page for an invalid cursor."""
        try:
            return read(self.asked("cursor") or None)
        except InvalidCursor:
            return read(None)

    def render_list(
        self,
        name: str,
        title: str,
        asked: Mapping[str, str],
        found: tuple[Sequence[Any], object],
        *,
        narrowed: bool | None = None,
        **values: Any,
    ) -> HTMLResponse:
        """Return the page of a list, whose template extends ``list.html``.

        :param found: the entries, and the cursor of the page after this one.
        :param narrowed: whether an empty list has entries without the filter; ``None``: if there is any filter.
        """
        items, following = found
        cursor = self.asked("cursor")
        narrowed = any([cursor, *asked.values()]) if narrowed is None else narrowed
        return self.render(name, title, asked, items=items, next=following, cursor=cursor, narrowed=narrowed, **values)

    def render_states(
        self, name: str, title: str, states: type[State], read: Callable[[str | None, State | None], ListPage[Any]], **values: Any
    ) -> HTMLResponse:
        """Return the page of a list that the address narrows to a state; ``read`` takes a cursor and the state."""
        asked = {"state": self.choice("state", list(states))}
        found = self.listed(lambda cursor: read(cursor, states(asked["state"]) if asked["state"] else None))
        return self.render_list(name, title, asked, (found.items, found.next), states=choices_of(states), **values)

    def changes(self, subject: str) -> list[AuditEntry]:
        """Return the newest changes of a subject of the audit trail."""
        return AuditTrail(self.services.jobs.store).latest(CHANGES, subject=subject)

    def redirect(self, address: str) -> RedirectResponse:
        return RedirectResponse(f"{root_of(self.request)}/ui/{address}")

    def of_short_id(
        self, kind: str, given: str, ids_beginning: Callable[..., Sequence[str]], several: str
    ) -> RedirectResponse | None:
        """Redirect from a short id, as lists show it, to the page of its only match, or to a list of ``several`` matches.

        :param kind: the pages of these ids, such as ``jobs``.
        :returns: ``None`` when no id is longer than the given one and begins with it, or when it is too short.
        """
        found = ids_beginning(given, limit=2) if SHORT_ID.fullmatch(given) else ()
        if not found or given in found:
            return None
        return self.redirect(f"{kind}/{found[0]}" if len(found) == 1 else several)

    @property
    def airflow(self) -> str | None:
        """Where the Airflow around this app is, if there is one."""
        return airflow_root(self.request)

    def render(self, name: str, title: str, asked: Mapping[str, str] | None = None, **values: Any) -> HTMLResponse:
        """Return the page.

        :param name: of the template, which also marks the place in the menu.
        :param asked: the filter of a list. ``url(…)`` in the template is the query of its address, with changes.
        """
        given = dict(asked or {})
        values |= {"asked": given, "url": lambda **changes: urlencode({key: to for key, to in (given | changes).items() if to})}
        jobs = self.services.jobs
        roles = read_roles(jobs.store, self.services.dag_states)
        frame = {"drain": jobs.drain(), "queue_state": jobs.queue(), "roles": roles, "user": self.user, "now": self.now}
        return HTMLResponse(template(name).render(**_everywhere(self.request, name, title), **frame, **values))


def choices_of(states: Iterable[StrEnum]) -> list[tuple[str, str, int | None]]:
    """Return the choices of a filter by state, after that of all states: value, label and count of each."""
    return [("", "All", None), *((state.value, state.value.replace("_", " "), None) for state in states)]


async def _page(request: Request, user: Reader, services: Open) -> HtmlPage:
    return HtmlPage(request, user, services)


Here = Annotated[HtmlPage, Depends(_page)]


class PageRoute(Threaded):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except HTTPException:
                raise
            except Exception as error:  # noqa: BLE001 - a browser always gets a page; problem_of logs unexpected errors
                return _error_page(request, error)

        return answer


def not_a_page(request: Request) -> HTMLResponse:
    """For an address below ``/ui`` that is none."""
    return _message(request, 404, "Page not found", "There is no page at this address. Choose one from the menu.")


def refuse(scope: Scope, error: Exception) -> Response:
    """Return the answer to a request that no route has answered: a page below ``/ui``, and a problem document elsewhere."""
    request = Request(scope)
    path = scope["path"].removeprefix(root_of(request))
    return _error_page(request, error) if f"{path}/".startswith("/ui/") else problem_of(error)


def _error_page(request: Request, error: Exception) -> HTMLResponse:
    """Return the same text that a program gets, without internals."""
    problem = problem_of(error)
    body = json.loads(bytes(problem.body))
    answer = _message(request, problem.status_code, body["title"], body["detail"])
    for name in ("retry-after", "www-authenticate"):
        if name in problem.headers:
            answer.headers[name] = problem.headers[name]
    return answer


def _message(request: Request, status: int, title: str, detail: str) -> HTMLResponse:
    """Made without the store, which may be what is missing."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    wanted = request.query_params.get("next", here)  # after signing in, also when that fails at first
    values = _everywhere(request, "error.html", title) | {"status": status, "detail": detail, "wanted": wanted}
    return HTMLResponse(template("error.html").render(**values, drain=None, roles=[], user=None, now=None), status)


def _everywhere(request: Request, name: str, title: str) -> dict[str, Any]:
    root = root_of(request)
    return {
        "root": root,
        "asset": lambda file: f"{root}/ui/static/{versioned(file)}",
        "here": name.removesuffix(".html"),
        "menu": MENU,
        "title": title,
        "airflow": airflow_root(request),
        "by_token": isinstance(request.app.state.auth, TokenAuth),
    }


def root_of(request: Request) -> str:
    """Return where the app is mounted; empty at the root."""
    return str(request.scope.get("root_path", "")).rstrip("/")
