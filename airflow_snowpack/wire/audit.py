"""The audit trail."""

from datetime import datetime
from typing import Any

from pydantic import Field

from airflow_snowpack.humanize import short_id
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import Shape


class AuditShape(Shape):
    """A change and who made it."""

    id: int
    at: datetime
    actor: str
    via: str = Field(examples=["api"])
    change: str = Field(examples=["cancel"])
    subject: str = Field(
        description="A job's id, a table with its catalog, `drain`, `queue`, or a name behind `schedule:`, `event:` or `build:`."
    )
    detail: dict[str, Any]


class AuditPageShape(Shape):
    """Who changed what, newest first."""

    entries: list[AuditShape]
    next: int | None = Field(description="The `before` of the next page.")


def _detail(entry: Any) -> str:
    shown = {name: value for name, value in entry.detail.items() if value not in (None, "", [], False)}
    return ", ".join(f"{name}={','.join(value) if isinstance(value, list) else value}" for name, value in shown.items())


AUDIT: Listing[Any] = Listing(
    "entries",
    AuditShape.encode,
    (
        Column("when", "at"),
        Column("who", "actor"),
        Column("via", "via"),
        Column("change", "change"),
        Column("subject", "subject", lambda entry: short_id(entry.subject)),
        Column("detail", _detail),
    ),
    noun="changes",
)
