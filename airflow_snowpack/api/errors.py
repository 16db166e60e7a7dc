"""Errors of requests, and of the services behind the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


class InvalidRequest(SnowpackError, kind=Kind.INVALID):
    """Malformed request.

    :ivar errors: each with where it is and what is wrong.
    """

    def __init__(self, errors: Sequence[dict[str, str]]) -> None:
        self.errors = list(errors)
        said = "; ".join(f"{each['where']}: {each['problem']}" for each in self.errors[:5])
        super().__init__(f"The request is not usable: {said}. The document at /openapi.json gives its shape.")

    @classmethod
    def of(cls, errors: Sequence[Any]) -> InvalidRequest:
        """From the errors that pydantic lists."""
        return cls([{"where": _place(each["loc"]), "problem": str(each["msg"])[:200]} for each in errors])

    @classmethod
    def at(cls, where: str, problem: str) -> InvalidRequest:
        return cls([{"where": where, "problem": problem}])


class StoreDown(SnowpackError, kind=Kind.UNAVAILABLE):
    """The store does not answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Snowpack store does not answer: {reason}. Nothing was changed that was not answered; try again soon."
        )


class CatalogTooSlow(SnowpackError, kind=Kind.UNAVAILABLE):
    """The catalog took too long to answer."""

    def __init__(self, catalog: str, waited: timedelta) -> None:
        super().__init__(
            f"The Iceberg catalog {catalog!r} did not answer within {waited.total_seconds():g} s. "
            "Try again later, see why it is slow, or raise [snowpack] request_timeout."
        )


class StorageTooSlow(SnowpackError, kind=Kind.UNAVAILABLE):
    """The storage of builds took too long to answer."""

    def __init__(self, dataset: str, waited: timedelta) -> None:
        super().__init__(
            f"The storage of the dataset {dataset} did not answer within {waited.total_seconds():g} s. "
            "What was asked for may still happen; look before you ask again."
        )


def _place(loc: Sequence[Any]) -> str:
    return ".".join(str(part)[:60].encode("utf-8", "replace").decode() for part in loc) or "body"
