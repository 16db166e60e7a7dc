"""Notifications: what people have to know about tables, jobs and schedules, sent once to the owner.

    records = Notifications(store)
    records.record(find_causes(store, policies))                    # what is wrong now
    deliver(records, receivers, send, headline, next_digest)        # what was not sent yet, and the digest

A cause is notified once while it lasts, and again only if it comes back an hour or more after it was resolved. It is sent **at
least once**: a process that is killed between sending and recording leaves the message to the next round, which sends it again.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
