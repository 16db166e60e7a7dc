"""Sends to each receiver what it has to know, one message a round.

    for each in deliver(records, receivers, send, headline, next_digest, base_url):
        print(each.receiver, each.causes, each.problem)

Receivers are called side by side, each within :data:`SEND_LIMIT`: one that hangs or fails is tried again in a later round, with a
growing pause, and holds up no other. No transaction is open while a receiver is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from airflow_snowpack.errors import error_text
from airflow_snowpack.notifications.message import Message
from airflow_snowpack.notifications.records import DEFAULT, Notifications
from airflow_snowpack.redaction import redacted
from airflow_snowpack.timed_calls import NoAnswer, TimedCalls

SEND_LIMIT = timedelta(seconds=60)
"""How long a receiver may take; below the lease of an attempt."""
PATH = re.compile(r"(?P<host>://[^\s/'\"<>]+|(?:[\w-]+\.)+[\w-]+(?::\d+)?|[\w-]+:\d+|(?<![\w.:/<]))/(?!/)[^\s'\"<>)]+")
"""A path, behind a host or alone: the address of a webhook has its secret there."""
MOST_OF_A_PROBLEM = 1_000
"""Characters: a server may answer with a whole page."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An attempt at a receiver.

    :param causes: how many new causes its message has.
    :param problem: why it failed; ``None`` if the receiver has accepted the message.
    """

    receiver: str
    causes: int
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
    began = records.store.clock()  # what is resolved meanwhile belongs to the next digest
    attempts: dict[str, tuple[str, int, Message]] = {}
    for name, message in _due(records, receivers, headline, next_digest, base_url).items():
        if (claim := records.claim(name)) is not None:
            attempts[name] = (*claim, message)
    calls = {name: partial(send, name, message) for name, (*_, message) in attempts.items()}
    done = []
    for name, result in TimedCalls[str, None](lambda name: f"The receiver {name}", limit=limit).run(calls):
        fence, number, message = attempts[name]
        problem = _problem(name, result, limit) if isinstance(result, Exception) else None
        if problem is None:
            records.delivered(name, fence, message.causes, digest_at=began if message.is_digest else None)
        else:
            records.failed(name, fence, number, problem)
        done.append(Delivery(name, len(message.causes), problem))
    return done


def _problem(receiver: str, failure: Exception, limit: timedelta) -> str:
    """Return why an attempt failed, for all users. A notifier logs its errors in full, where Airflow masks the secrets."""
    if isinstance(failure, NoAnswer):
        failure = NoAnswer(f"The receiver {receiver}", limit)  # without the pause of a process that goes on calling
    text = PATH.sub(r"\g<host>/…", redacted(f"{type(failure).__name__}: {error_text(failure)}"))
    return text if len(text) <= MOST_OF_A_PROBLEM else f"{text[: MOST_OF_A_PROBLEM - 1]}…"


def _due(
    records: Notifications,
    receivers: Mapping[str, str],
    headline: Callable[[], str],
    next_digest: Callable[[datetime], datetime],
    base_url: str,
) -> dict[str, Message]:
    """Return the message that each receiver gets now; without news, and without a digest that has anything, it gets none."""
    states, default = records.receivers(sorted(set(receivers.values()))), receivers[DEFAULT]
    now = records.store.clock()  # after the states, since a new receiver is due when its row is written
    ready = [each for each in states if each.next_attempt_at <= now]
    digests = [each for each in ready if next_digest(each.digest_at) <= now]
    known = records.read(since=min((each.digest_at for each in digests), default=None))
    messages = {}
    for each in ready:
        mine = [found for found in known if (receivers.get(found.owner) or default) == each.receiver]
        news = [found for found in mine if found.notified_at is None]
        lasts = [found for found in mine if found.resolved_at is None or found.resolved_at > each.digest_at]
        digest = [found for found in lasts if found.notified_at is not None]
        is_due = each in digests and bool(digest or each.receiver == default)
        if each in digests and not is_due:
            records.skip_digest(each.receiver)
        if news or is_due:
            done = headline() if is_due and each.receiver == default else ""
            messages[each.receiver] = Message.compose(news, digest if is_due else None, done, base_url)
    return messages
