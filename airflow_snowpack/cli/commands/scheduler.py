"""``airflow snowpack scheduler``: the dispatcher DAG's work as a process, such as a pod beside Airflow's own.

It reaches Airflow by its REST API. SIGTERM and Ctrl-C end it between two rounds; kill -9 loses nothing either, since all state is
in the store. Any number may run at once, beside the dispatcher DAG too.
"""

import logging
import os
import signal
import socket
import threading
from argparse import Namespace
from datetime import timedelta

from airflow_snowpack.cli.context import airflow_rest
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import log_to_stderr
from airflow_snowpack.cli.values import read_poll
from airflow_snowpack.hooks.dag_files import dags_folder
from airflow_snowpack.hooks.dag_runs import RestDagRuns
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook, reach_catalog
from airflow_snowpack.hooks.services import deploy, open_poller, sign_of_process
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.scheduling import Scheduler
from airflow_snowpack.scheduling.scheduler import ROUND_PATIENCE
from airflow_snowpack.store.signs_of_life import Role

log = logging.getLogger(__name__)

DEPLOY_EVERY = timedelta(minutes=55)


@ends_cleanly
def schedule(args: Namespace) -> None:
    log_to_stderr()
    pause = read_poll(args.poll)
    name = f"{socket.gethostname()}:{os.getpid()}"
    stop = _stop_signal()
    with SnowpackHook(args.store_conn_id) as hook, airflow_rest(args, hook.settings, "what runs") as rest:
        store, runs = hook.store(), RestDagRuns(rest, ROUND_PATIENCE)
        catalog_hook = IcebergCatalogHook(args.catalog_conn_id)
        sign, polls = sign_of_process(store, Role.SCHEDULER, catalog_hook), sign_of_process(store, Role.POLLER)
        scheduler = Scheduler(store, runs, runs, name, sign, patience=ROUND_PATIENCE)
        log.info("Scheduler %s works on the store at %s and the Airflow at %s", name, store.where, rest.where)
        broker = Broker(lambda: reach_catalog(args.catalog_conn_id))
        with open_poller(store, hook.settings, broker).worker(polls):
            worker, deploy_at = scheduler.worker(pause), store.clock()
            while not stop.is_set():
                if store.clock() >= deploy_at:
                    deploy(store, hook.settings, dags_folder(), by=name)
                    deploy_at = store.clock() + DEPLOY_EVERY
                if not worker.run_once():
                    stop.wait(worker.pause_s)
        log.info("Scheduler %s leaves", name)


def _stop_signal() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
