"""A secrets backend that does not answer, for ``[secrets] backend``."""

from __future__ import annotations

from typing import NoReturn

from airflow.sdk.bases.secrets_backend import BaseSecretsBackend


class SealedVault(BaseSecretsBackend):
    """Fails as the client of a vault does."""

    def get_connection(self, conn_id: str, team_name: str | None = None) -> NoReturn:
        raise ConnectionError(f"https://vault.example.com/{conn_id}?token=hunter2 is sealed")
