"""Routes that refuse a query parameter which they do not know, or which comes twice where one is meant.

To overlook a misspelt ``?statsu=failed`` would be to cancel, or to delete, every job.

    router = APIRouter(route_class=Strict)
"""

from collections.abc import Callable
from typing import Any, get_args, get_origin

from fastapi import Depends, Request
from fastapi.dependencies.utils import get_flat_dependant

from airflow_snowpack.api.auth import reader_of
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.threads import Threaded


class Strict(Threaded):
    """A route with threads of our own that knows its parameters."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        known = [each for each in options.pop("dependencies", None) or () if each.dependency is not _refuse_unknown]
        super().__init__(path, endpoint, dependencies=[*known, Depends(_refuse_unknown)], **options)
        fields = get_flat_dependant(self.dependant).query_params
        self.query_names = frozenset(field.alias for field in fields)
        self.repeatable = frozenset(field.alias for field in fields if _is_list(field.field_info.annotation))


async def _refuse_unknown(request: Request) -> None:
    if not request.scope["query_string"]:
        return
    await reader_of(request)  # whom nobody knows is told nothing else
    route: Strict = request.scope["route"]
    known, given = route.query_names, [name for name, _ in request.query_params.multi_items()]
    unknown = [name for name in given if name not in known]
    twice = [name for name in given if name not in route.repeatable and given.count(name) > 1]
    if twice and not unknown:
        raise InvalidRequest.at(f"query.{twice[0][:60]}", "it comes more than once, and can have one value only")
    if unknown:
        allowed = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise InvalidRequest.at(f"query.{unknown[0][:60]}", f"there is no such parameter; {allowed}")


def _is_list(annotation: Any) -> bool:
    return any(get_origin(each) is list for each in (annotation, *get_args(annotation)))
