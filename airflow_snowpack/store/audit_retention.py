"""How long entries of the audit trail stay: a year at least, whatever else is deleted earlier."""

from __future__ import annotations

from datetime import timedelta

from airflow_snowpack.store.retention import Kind
from airflow_snowpack.store.schema import audit_trail

AUDIT_TRAIL = Kind(audit_trail, age=audit_trail.c.at, order=(audit_trail.c.id,), at_least=timedelta(days=365))
