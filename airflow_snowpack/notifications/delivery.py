"""Sends to each receiver what it has to know, one message a round.

    for each in deliver(records, owners, send, headline, next_digest, base_url):
        print(each.receiver, each.causes, each.problem)

Receivers are called side by side, each within :data:`SEND_LIMIT`: one that hangs or fails is tried again in a later round, with a
growing pause, and holds up no other. No transaction is open while a receiver is called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from airflow_snowpack.errors import error_text
from airflow_snowpack.notifications.message import DigestPart, Message, compose
from airflow_snowpack.notifications.records import DEFAULT, Notification, Notifications, Receiver
from airflow_snowpack.redaction import redacted
from airflow_snowpack.timed_calls import TimedCalls

SEND_LIMIT = timedelta(seconds=60)
"""How long a receiver may take; below the lease of an attempt."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An attempt at a receiver.

    :param causes: how many new causes its message has.
    :param problem: why it failed; ``None`` if the receiver has accepted the message.
    """

    receiver: str
    causes: int
    is_digest: bool
    problem: str | None


def deliver(
    records: Notifications,
    receivers: Mapping[str, str],
    send: Callable[[str, Message], None],
    headline: Callable[[], str],
    next_digest: Callable[[datetime], datetime],
    base_url: str = "",
    *,
    limit: timedelta = SEND_LIMIT,
) -> list[Delivery]:
    """Send what is unsent, and the digests that are due, to the receivers whose pause has elapsed.

    :param receivers: by owner, and :data:`DEFAULT` for all others, the name of the receiver.
    :param send: calls a receiver; whatever it raises is recorded.
    :param headline: returns what maintenance did, for the digest of the default receiver; called only if one is due.
    :param next_digest: returns the first time for a digest after a time.
    """
    due = _Due(records, receivers, next_digest)
    attempts: dict[str, tuple[str, Message]] = {}
    for name in due.names(headline):
        if (fence := records.claim(name)) is not None:
            attempts[name] = fence, compose(due.news[name], due.digests.get(name), base_url)
    calls = {name: partial(send, name, message) for name, (_, message) in attempts.items()}
    done = []
    for name, result in TimedCalls[str, None](lambda name: f"The receiver {name}", limit=limit).run(calls):
        fence, message = attempts[name]
        problem = redacted(f"{type(result).__name__}: {error_text(result)}") if isinstance(result, Exception) else None
        if problem is None:
            records.delivered(name, fence, message.causes, digest=message.is_digest)
        else:
            records.failed(name, fence, due.states[name].attempts + 1, problem)
        done.append(Delivery(name, len(message.causes), message.is_digest, problem))
    return done


class _Due:
    """What is to be sent now, by the name of the receiver."""

    def __init__(self, records: Notifications, receivers: Mapping[str, str], next_digest: Callable[[datetime], datetime]) -> None:
        self._records = records
        self._receivers = receivers
        self._next_digest = next_digest
        self.states: dict[str, Receiver] = records.receivers(sorted(set(receivers.values())))
        self.news = self._by_receiver(records.unsent())
        self.digests: dict[str, DigestPart] = {}

    def names(self, headline: Callable[[], str]) -> list[str]:
        """Return the receivers that get a message now."""
        now = self._records.store.clock()
        ready = {name: state for name, state in self.states.items() if state.next_attempt_at <= now}
        self._find_digests({name: each for name, each in ready.items() if self._next_digest(each.digest_at) <= now}, headline)
        return [name for name in ready if name in self.news or name in self.digests]

    def _find_digests(self, due: Mapping[str, Receiver], headline: Callable[[], str]) -> None:
        if not due:
            return
        known = self._by_receiver(self._records.since(min(state.digest_at for state in due.values())))
        for name, state in due.items():
            told = [each for each in known[name] if each.notified_at is not None]
            still = [each for each in told if each.resolved_at is None]
            over = [each for each in told if each.resolved_at is not None and each.resolved_at > state.digest_at]
            if name == self._receivers[DEFAULT]:
                self.digests[name] = DigestPart(headline(), still, over)
            elif still or over:
                self.digests[name] = DigestPart("", still, over)
        if empty := due.keys() - self.digests.keys():
            self._records.skip_digest(sorted(empty))

    def _by_receiver(self, found: list[Notification]) -> defaultdict[str, list[Notification]]:
        groups: defaultdict[str, list[Notification]] = defaultdict(list)
        for each in found:
            groups[self._receivers.get(each.owner) or self._receivers[DEFAULT]].append(each)
        return groups
