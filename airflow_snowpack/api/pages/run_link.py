"""From a launch to the DAG run in Airflow's own UI.

run_link("maintain", "snowpack__nightly__20261121T120000__3f2a91bc04de", "")
# '/dags/maintain/runs/snowpack__nightly__20261121T120000__3f2a91bc04de'
"""

from urllib.parse import quote


def run_link(dag_id: str, run_id: str | None, airflow: str | None) -> str | None:
    """The address of the run; ``None`` when there is none, or no Airflow to show it.

    :param airflow: where Airflow is, as ``task_link.airflow_root`` gives it.
    """
    if run_id is None or airflow is None:
        return None
    return f"{airflow}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
