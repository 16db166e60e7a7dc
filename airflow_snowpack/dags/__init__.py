"""The DAGs that an installation needs: import them in a file of its DAGs folder.

    from airflow_snowpack.dags import collector, prune, scheduler, sweep

``sweep`` belongs in every installation, ``scheduler`` where there are schedules, ``collector`` where tasks pass tables to each
other, ``workers`` where jobs wait in the queue, and ``fleet`` where a pass maintains all tables. ``notifications`` sends what
people have to know, and ``prune`` keeps the store small.
:class:`~airflow_snowpack.dags.bundle.SnowpackDags` adds all of them by one setting.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
