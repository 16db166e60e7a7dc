"""Which maintenance each table gets: rules over patterns of names, overridden by the table's properties.

>>> policies = Policies.load("policies.yaml")  # doctest: +SKIP
>>> policy = policies.of(table, {"snowpack.max_snapshot_age_days": "30"})  # doctest: +SKIP
>>> policy.actions["expire_snapshots"].options.max_age  # doctest: +SKIP
datetime.timedelta(days=30) >>> str(policy.origins["expire_snapshots.options.max_age"])  # doctest: +SKIP 'table property
snowpack.max_snapshot_age_days'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
