"""A FastAPI route that does one INSERT, as one would write it: a body model, a pool of connections, a handler in a thread.

python -m benchmarks.contenders.bare_api POSTGRES_URL PORT
"""

import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

metadata = sa.MetaData()
requests = sa.Table(
    "requests",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("actions", sa.JSON, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
)


class Body(BaseModel):
    """What is asked for."""

    actions: list[str]
    dry_run: bool = False


def build(url: str) -> FastAPI:
    """The app; its table is made when it is missing."""
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"), pool_size=16)
    metadata.create_all(engine)
    app = FastAPI()

    @app.post("/tables/{database}/{table}/maintenance", status_code=202)
    def submit(database: str, table: str, body: Body) -> dict[str, Any]:
        row = {
            "job_id": uuid.uuid4().hex,
            "database_name": database,
            "table_name": table,
            "actions": body.actions,
            "status": "pending",
            "submitted_at": datetime.now(UTC),
        }
        with engine.begin() as conn:
            conn.execute(sa.insert(requests).values(**row))
        return row

    return app


if __name__ == "__main__":
    uvicorn.run(build(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
