"""Signing in to the pages of an app that is served alone: the token once, then a cookie.

Inside Airflow these routes do nothing: Airflow has authenticated the user.
"""

from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from airflow_snowpack.api.auth import COOKIE, NotAuthenticated, TokenAuth
from airflow_snowpack.api.pages.page import PageRoute, not_a_page
from airflow_snowpack.api.parameters import read_body

router = APIRouter(route_class=PageRoute)


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
    root = str(request.scope.get("root_path", "")).rstrip("/")
    pages = f"{root}/ui/"
    wanted = request.query_params.get("next", pages)
    answer = RedirectResponse(wanted if wanted.startswith(pages) else pages, status_code=303)
    secure = request.url.scheme == "https"
    # Not "strict": a link to a page in a mail would then require another sign-in. GET requests change nothing.
    answer.set_cookie(COOKIE, auth.session, path=f"{root}/", httponly=True, samesite="lax", secure=secure)
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    root = str(request.scope.get("root_path", "")).rstrip("/")
    answer = RedirectResponse(f"{root}/ui/", status_code=303)
    answer.delete_cookie(COOKIE, path=f"{root}/", httponly=True, samesite="lax")
    return answer
