"""The tables of notifications: what people have to know, and the state of the receivers."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.schema import metadata, partial_index

notifications = sa.Table(
    "notifications",
    metadata,
    sa.Column("cause_key", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("sentence", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("first_seen_at", UtcDateTime, nullable=False),
    sa.Column("last_seen_at", UtcDateTime, nullable=False),
    sa.Column("notified_at", UtcDateTime),
    sa.Column("resolved_at", UtcDateTime),
    sa.Index("ix_notifications_last_seen_at", "last_seen_at", "cause_key"),
)
"""One row for each cause; ``owner`` is empty for a cause without one. A cause that comes back uses its row again."""

partial_index("ix_notifications_open", notifications.c.cause_key, where=notifications.c.resolved_at.is_(None))
partial_index("ix_notifications_unsent", notifications.c.cause_key, where=notifications.c.notified_at.is_(None))

notification_receivers = sa.Table(
    "notification_receivers",
    metadata,
    sa.Column("receiver", sa.Text, primary_key=True),
    sa.Column("attempt_id", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_attempt_at", UtcDateTime, nullable=False),
    sa.Column("digest_at", UtcDateTime, nullable=False),
    sa.Column("problem", sa.Text),
)
"""``attempt_id`` is the fence of the latest attempt. ``attempts``: how many in a row failed, with one that runs. ``digest_at``:
the end of the period of the last digest."""
