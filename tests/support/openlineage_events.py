"""What Airflow's OpenLineage provider makes of a task: its own extractor manager, adapter and file transport.

reported = extracted(operator, task_instance)
event = sent(reported, tmp_path)            # as a backend receives it
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def extracted(operator: Any, instance: Any, state: str = "success") -> Any:
    """Return what the provider extracts from a task that ended."""
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.utils.state import TaskInstanceState

    dag_run = SimpleNamespace(run_id="manual__1")
    return ExtractorManager().extract_metadata(dag_run, operator, TaskInstanceState(state), task_instance=instance)


def sent(reported: Any, folder: Path) -> dict[str, Any]:
    """Return the event of a completed task after a real transport has written it."""
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.file import FileConfig, FileTransport

    file = folder / "events.json"
    file.unlink(missing_ok=True)
    client = OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(file), append=True)))
    OpenLineageAdapter(client=client).complete_task(
        run_id="01941f29-7c00-7087-8906-40e512c257bd",
        job_name="shop.work",
        end_time=datetime.now(UTC).isoformat(),
        task=reported,
        nominal_start_time=None,
        nominal_end_time=None,
        owners=None,
        tags=None,
        job_description=None,
    )
    event: dict[str, Any] = json.loads(file.read_text())
    return event
