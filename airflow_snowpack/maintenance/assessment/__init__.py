"""Assess a catalog: which tables are sick, what maintenance would save and cost, and what blocks it. Nothing is written.

walk = Walk(config.load, policies, clock)
found = walk.assess(tables, progress=show, resume=ResumeFile.open(path, config.catalog_id))
found.in_need[0].table, found.in_need[0].score            # ('demo.flights', 31)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
