"""What a policy would have done to a table: a simulation on the commits that the table really had.

    history = read_history(table, since=now - timedelta(days=30))
    outcome = simulate(history, policy, passes(since, now, timedelta(days=1)), label="new.yaml")
    outcome.bytes_rewritten, outcome.points[-1].files

The plans are those of :func:`~airflow_snowpack.maintenance.planning.plan_table`, and what a rewrite takes is chosen by the rules
that the action itself uses. ``docs/replay.md`` lists what is an approximation.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
