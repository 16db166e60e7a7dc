"""Airflow's simple auth manager with a DAG that only admins may trigger, as in auth managers with a permission for each DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

ADMINS_ONLY = "payroll"


class LimitedAuthManager(SimpleAuthManager):
    """Only an admin may trigger the DAG ``payroll``."""

    def is_authorized_dag(
        self,
        *,
        method: Any,
        user: SimpleAuthManagerUser,
        access_entity: DagAccessEntity | None = None,
        details: DagDetails | None = None,
    ) -> bool:
        asked = method, access_entity, details and details.id
        if asked == ("POST", DagAccessEntity.RUN, ADMINS_ONLY) and user.role != "admin":
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
