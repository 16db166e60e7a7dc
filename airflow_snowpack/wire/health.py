"""Probes and problems: what the API returns about itself."""

from typing import Literal

from pydantic import BaseModel, Field

from airflow_snowpack.wire.shape import Shape


class HealthzShape(Shape):
    """The process is alive."""

    status: Literal["ok"]


class ReadyShape(Shape):
    """Each part that must be ready, and the background roles, which need not run."""

    status: Literal["ready"]
    store: str
    tables: str
    roles: dict[str, str] = Field(examples=[{"sweeper": "No sweeper for 40 min: DAG snowpack_sweep is paused. Unpause it."}])
    missing_roles: list[str]


class ProblemShape(BaseModel):
    """A problem detail (RFC 9457); some have further members."""

    type: str = Field(examples=["urn:snowpack:problem:table_locked"])
    title: str
    status: int
    detail: str = Field(description="For people: what happened, what is allowed, and what to do.")
    error: str = Field(description="For programs.", examples=["table_locked"])
