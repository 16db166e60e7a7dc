"""What a policy would have done to a table, simulated on its real commits.

    history = read_history(table, since=now - timedelta(days=30))
    outcome = simulate(history, policy, passes(since, now, timedelta(days=1)), label="new.yaml")
    outcome.bytes_rewritten, outcome.points[-1].files

Plans are made by :func:`~airflow_snowpack.maintenance.planning.plan_table`, and rewrites select files by the rules of their
actions. ``docs/replay.md`` lists the approximations.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
