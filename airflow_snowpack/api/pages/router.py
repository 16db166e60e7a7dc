"""The routes below ``/ui``: all pages, the files that they load, and signing in to an app that is served alone.

A person signs in with the token once and gets a cookie. Inside Airflow signing in does nothing: Airflow has authenticated the
user. The files are public, because the sign-in page needs them too; in Airflow the access guard runs before them.
"""

from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from airflow_snowpack.api.auth import COOKIE, NotAuthenticated, Reader, TokenAuth
from airflow_snowpack.api.pages import (
    builds,
    home,
    images,
    interim,
    jobs,
    lineage,
    operations,
    removals,
    schedules,
    tables,
)
from airflow_snowpack.api.pages.markup import content
from airflow_snowpack.api.pages.page import PageRoute, not_a_page, root_of
from airflow_snowpack.api.parameters import read_body

KINDS: Final = {"page.css": "text/css", "page.js": "text/javascript", "theme.js": "text/javascript", "icon.svg": "image/svg+xml"}
FOR_GOOD = "private, max-age=31536000, immutable"

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=PageRoute)
for each in (home, tables, jobs, schedules, builds, lineage, interim, images, removals, operations):
    router.include_router(each.router)


@router.get("")
def without_slash(request: Request, user: Reader) -> RedirectResponse:
    return RedirectResponse(f"{root_of(request)}/ui/")


@router.get("/static/{name}")
def static(name: str, v: str = "") -> Response:
    if name not in KINDS:
        return Response("There is no such file.", 404, media_type="text/plain")
    kept = {"Cache-Control": FOR_GOOD} if v else {}
    return Response(content(name), media_type=KINDS[name], headers=kept)


@router.post("/login")
async def login(request: Request) -> Response:
    """Redirect to the requested page. The body is limited like any other, because the sender is not authenticated yet.

    :raises NotAuthenticated: it is not the token; the page for that has the form once more.
    """
    auth = request.app.state.auth
    if not isinstance(auth, TokenAuth):
        return not_a_page(request)
    sent = parse_qs((await read_body(request)).decode("utf-8", "replace"))
    if not auth.knows(sent.get("token", [""])[0]):
        raise NotAuthenticated("That is not the token. It is the one that `airflow snowpack api` was started with.")
    root = root_of(request)
    pages = f"{root}/ui/"
    wanted = request.query_params.get("next", pages)
    answer = RedirectResponse(wanted if wanted.startswith(pages) else pages, status_code=303)
    secure = request.url.scheme == "https"
    # Not "strict": a link to a page in a mail would then require another sign-in. GET requests change nothing.
    answer.set_cookie(COOKIE, auth.session, path=f"{root}/", httponly=True, samesite="lax", secure=secure)
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    root = root_of(request)
    answer = RedirectResponse(f"{root}/ui/", status_code=303)
    answer.delete_cookie(COOKIE, path=f"{root}/", httponly=True, samesite="lax")
    return answer


@router.get("/{rest:path}")
def nothing(rest: str, request: Request, user: Reader) -> HTMLResponse:
    return not_a_page(request)
