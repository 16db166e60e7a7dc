"""Decide from a table's stored health and its policy which actions to run now, why, and what they will cost.

>>> plan = plan_table(health, policy, now=utc_now(), history=history)  # doctest: +SKIP
>>> plan.actions  # doctest: +SKIP
('rewrite_data_files', 'expire_snapshots') >>> plan.of("rewrite_data_files").evidence  # doctest: +SKIP '847 of 1,284 files below
384 MiB in 3 of 90 partitions; threshold 100'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
