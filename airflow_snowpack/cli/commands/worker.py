"""``airflow snowpack worker``: a process that runs jobs from the queue, with Airflow's settings and connections."""

from argparse import Namespace

from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import log_to_stderr
from airflow_snowpack.cli.values import read_poll
from airflow_snowpack.hooks.iceberg_spark import sparks
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.worker.process import exits_on_signal, run_worker


@ends_cleanly
def work(args: Namespace) -> None:
    log_to_stderr()
    poll = read_poll(args.poll)
    with exits_on_signal(), SnowpackHook(args.store_conn_id) as hook:
        run_worker(
            hook.installation,
            *sparks(args.spark_conn_id, args.catalog_conn_id or ()),
            name=args.worker_id,
            poll=poll,
            max_jobs=1 if args.once else args.max_jobs,
            until_idle=args.once,
        )
