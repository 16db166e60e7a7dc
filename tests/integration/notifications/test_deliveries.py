"""Each cause reaches its receiver once while it lasts, whatever happens to the receiver and to the process that sends."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_snowpack.notifications import DEFAULT, CauseKind, Delivery, Message, NotificationCause, Notifications, deliver
from airflow_snowpack.scheduling.cron import next_tick
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.tables.notifications import notification_receivers, notifications

OWNERS = {DEFAULT: DEFAULT, "ana": "ana", "ben": "ben", "bea": "ben"}


class Down(Exception):
    """The receiver does not answer."""


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Post:
    """Receivers, what they got, and which of them are down or let the sender be killed."""

    store: Store
    got: list[tuple[str, Message]] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    killed: bool = False

    def send(self, name: str, message: Message) -> None:
        if name in self.down:
            raise Down(f"{name} does not answer at https://ana:s3cret@chat.example.com/hook")
        self.got.append((name, message))

    def round(self, *causes: NotificationCause, owners: Mapping[str, str] = OWNERS) -> list[Delivery]:
        records = Killing(self.store) if self.killed else Notifications(self.store)
        records.record(causes)
        return deliver(records, owners, self.send, lambda: "412 jobs, none failed.", tomorrow, "https://a.example/snowpack")

    def texts(self, name: str) -> list[str]:
        return [message.text for receiver, message in self.got if receiver == name]


class Killing(Notifications):
    """Ends the process after a message was sent and before that is recorded."""

    def delivered(self, *given: Any, **more: Any) -> bool:
        raise Killed


def tomorrow(after: datetime) -> datetime:
    return next_tick("0 7 * * *", "Europe/Berlin", after)


def cause(subject: str, owner: str = "", kind: CauseKind = CauseKind.HEALTH, *, opens: bool = True) -> NotificationCause:
    return NotificationCause(kind, subject, owner, f"{subject} has a score of 31, below 50.", f"/tables/{subject}", opens)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def post(store_url: str, clock: MovedClock) -> Iterator[Post]:
    with open_store(store_url, clock=clock) as store:
        yield Post(store)


def test_a_cause_is_sent_once_to_its_owner_while_it_lasts(post: Post, clock: MovedClock) -> None:
    for _ in range(5):
        post.round(cause("db.a", "ana"), cause("db.b", "eva"))
        clock.move(minutes=20)
    assert post.texts("ana") == ["- health: db.a has a score of 31, below 50. https://a.example/snowpack/ui/tables/db.a"]
    assert post.texts(DEFAULT) == ["- health: db.b has a score of 31, below 50. https://a.example/snowpack/ui/tables/db.b"]


def test_a_cause_that_comes_back_after_it_was_resolved_is_sent_again(post: Post, clock: MovedClock) -> None:
    for present in (True, False, False, True, True):
        post.round(*[cause("db.a", "ana")] * present)
        clock.move(minutes=40)
    assert len(post.texts("ana")) == 2


@pytest.mark.one_database
def test_a_cause_that_flaps_is_one_message_and_in_the_digest(post: Post, clock: MovedClock) -> None:
    clock.now = datetime(2026, 11, 21, 6, 30, tzinfo=UTC)  # 7:30 in Berlin
    for number in range(72):
        post.round(*[cause("db.a", "ana")] * (number % 2 == 0))
        clock.move(minutes=20)
    new, digest = post.texts("ana")
    assert (new[:14], digest.splitlines()[0]) == ("- health: db.a", "Resolved: 1 cause.")


@pytest.mark.one_database
def test_a_cause_that_can_only_continue_does_not_open(post: Post, clock: MovedClock) -> None:
    waiting = cause("db.a", "ana", opens=False)
    for each in ([waiting], [cause("db.a", "ana")], [waiting], [cause("db.a", "ana")]):
        post.round(*each)
        clock.move(minutes=20)
    assert len(post.texts("ana")) == 1


@pytest.mark.one_database
def test_an_outage_is_a_few_messages_although_it_spreads(post: Post, clock: MovedClock) -> None:
    for minute in range(0, 60, 5):
        post.round(*(cause(f"db.t{number:03}") for number in range(minute * 8)))
        clock.move(minutes=5)
    assert len(post.texts(DEFAULT)) == 4
    last = post.texts(DEFAULT)[-1].splitlines()
    assert (len(last), last[-1]) == (21, "- health: 100 more causes.")


@pytest.mark.one_database
def test_owners_with_the_same_notifier_get_one_message(post: Post) -> None:
    post.round(cause("db.a", "ben"), cause("db.b", "bea"))
    ((name, message),) = post.got
    assert (name, message.title, len(message.causes)) == ("ben", "Snowpack: 2 new causes", 2)


def test_nothing_is_lost_while_a_receiver_is_down_and_others_get_theirs(post: Post, clock: MovedClock) -> None:
    post.down = {"ana"}
    post.round(cause("db.a", "ana"), cause("db.b"))
    assert len(post.texts(DEFAULT)) == 1
    clock.move(minutes=5)
    post.round(cause("db.b"))  # db.a is resolved before anybody was notified
    clock.move(hours=1)
    post.down = set()
    post.round(cause("db.b"), cause("db.c", "ana"))
    assert post.texts("ana") == [
        "- health: db.a has a score of 31, below 50. Resolved in the meantime. https://a.example/snowpack/ui/tables/db.a\n"
        "- health: db.c has a score of 31, below 50. https://a.example/snowpack/ui/tables/db.c"
    ]
    assert len(post.texts(DEFAULT)) == 1


@pytest.mark.one_database
def test_attempts_at_a_receiver_that_is_down_become_rare_and_are_shown_without_secrets(post: Post, clock: MovedClock) -> None:
    post.down, tried = {"ana"}, []
    for minute in range(0, 360, 5):
        tried += [minute] if post.round(cause("db.a", "ana")) else []
        clock.move(minutes=5)
    assert tried == [0, 5, 15, 35, 75, 135, 195, 255, 315]
    (failing,) = Notifications(post.store).undelivered()
    assert (failing.receiver, failing.attempts) == ("ana", 9)
    assert failing.problem == "Down: ana does not answer at https://chat.example.com/…"
    post.down = set()
    clock.move(hours=1)
    post.round(cause("db.a", "ana"))
    assert (len(post.texts("ana")), Notifications(post.store).undelivered()) == (1, [])


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            "Pool(host='hooks.slack.com', port=443): Max retries exceeded with url: /services/T0/B0/s3cret (Caused by x)",
            "Pool(host='hooks.slack.com', port=443): Max retries exceeded with url: /… (Caused by x)",
        ),
        ("404 for url: https://chat.example.com:8443/api/webhooks/1/s3cret", "404 for url: https://chat.example.com:8443/…"),
        ("POST 'hooks.slack.com/services/T0/s3cret' timed out", "POST 'hooks.slack.com/…' timed out"),
        ("localhost:8080/bot1:s3cret/send", "localhost:8080/…"),
        ("it accepts text/html and/or text/plain", "it accepts text/html and/or text/plain"),
        ("<html>" + "x" * 100_000 + "</html>", "<html>" + "x" * 987 + "…"),
    ],
)
def test_the_problem_of_a_receiver_has_neither_the_path_of_its_address_nor_a_whole_page(
    post: Post, error: str, shown: str
) -> None:
    def send(name: str, message: Message) -> None:
        raise Down(error)

    records = Notifications(post.store)
    records.record([cause("db.a", "ana")])
    (done,) = deliver(records, OWNERS, send, str, tomorrow)
    assert done.problem == f"Down: {shown}"
    assert [each.problem for each in records.receivers(["ana"])] == [done.problem]


@pytest.mark.one_database
def test_a_message_of_very_many_causes_is_short_and_ends_with_a_whole_line(post: Post) -> None:
    post.round(*(cause(f"{kind}.{number}_{'x' * 200}", "", kind) for kind in CauseKind for number in range(2_000)))
    ((_, message),) = post.got
    assert len(message.causes) == 2_000 * len(CauseKind)
    *lines, last = message.text.splitlines()
    assert 9_000 < len(message.text) <= 10_000
    assert all((line.startswith("- ") and "/ui/tables/" in line) or line.endswith("more causes.") for line in lines)
    assert last == "… The pages have the rest."


@pytest.mark.one_database
def test_a_receiver_that_hangs_is_left_behind_and_holds_up_no_other(post: Post, clock: MovedClock) -> None:
    released = threading.Event()

    def send(name: str, message: Message) -> None:
        if name == "ana":
            released.wait(300)
        else:
            post.send(name, message)

    records = Notifications(post.store)
    records.record([cause("db.a", "ana"), cause("db.b")])
    done = deliver(records, OWNERS, send, str, tomorrow, limit=timedelta(seconds=3))
    released.set()
    problems = {each.receiver: each.problem for each in done}
    why = "NoAnswer: The receiver ana did not answer within 3 s. Check the address and the network."
    assert problems == {DEFAULT: None, "ana": why}
    clock.move(minutes=5)
    post.round(cause("db.a", "ana"), cause("db.b"))
    assert len(post.texts("ana")) == 1


def test_a_process_that_is_killed_after_sending_leaves_the_message_to_a_later_round(post: Post, clock: MovedClock) -> None:
    post.killed = True
    with pytest.raises(Killed):
        post.round(cause("db.a", "ana"))
    post.killed = False
    assert post.round(cause("db.a", "ana")) == []  # the attempt may still run
    clock.move(minutes=5)
    post.round(cause("db.a", "ana"))
    assert len(post.texts("ana")) == 2
    clock.move(minutes=20)
    assert post.round(cause("db.a", "ana")) == []


def test_two_rounds_at_the_same_time_send_one_message(post: Post) -> None:
    first, second = Notifications(post.store), Notifications(post.store)
    first.record([cause("db.a", "ana")])
    first.receivers(["ana"])
    fences = [first.claim("ana"), second.claim("ana")]
    assert fences[1] is None
    assert fences[0] is not None


def test_an_attempt_that_was_replaced_records_nothing(post: Post, clock: MovedClock) -> None:
    records = Notifications(post.store)
    records.record([cause("db.a", "ana")])
    records.receivers(["ana"])
    old = records.claim("ana")
    clock.move(minutes=5)
    assert records.claim("ana") is not None
    assert old is not None
    assert not records.delivered("ana", old[0], records.read())
    records.failed("ana", *old, "It was slow.")
    assert len(records.read()) == 1
    assert [each.problem for each in records.receivers(["ana"])] == [None]


@pytest.mark.one_database
def test_the_digest_has_what_is_open_and_what_was_resolved_since_the_last_one(post: Post, clock: MovedClock) -> None:
    clock.now = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)
    post.round(cause("db.a", "ana"), cause("db.b", "ana"))
    clock.move(hours=1)
    post.round(cause("db.a", "ana"))
    clock.move(hours=2)  # after 7:00 in Berlin
    post.round(cause("db.a", "ana"))
    assert post.texts("ana")[1:] == [
        "Open: 1 cause.\n- health: db.a has a score of 31, below 50. https://a.example/snowpack/ui/tables/db.a\n\n"
        "Resolved: 1 cause.\n- health: db.b has a score of 31, below 50. https://a.example/snowpack/ui/tables/db.b"
    ]
    assert post.texts(DEFAULT) == ["412 jobs, none failed."]
    assert post.texts("ben") == []
    clock.move(hours=24)
    post.round()
    assert post.texts("ana")[2:] == [
        "Resolved: 1 cause.\n- health: db.a has a score of 31, below 50. https://a.example/snowpack/ui/tables/db.a"
    ]
    clock.move(hours=24)
    post.round()
    assert len(post.texts("ana")) == 3
    assert len(post.texts(DEFAULT)) == 3


@pytest.mark.one_database
def test_a_digest_that_was_not_accepted_is_sent_later_with_the_same_period(post: Post, clock: MovedClock) -> None:
    post.round(cause("db.a"))
    clock.move(hours=1)
    post.round()
    clock.move(hours=9)
    post.down = {DEFAULT}
    post.round()
    post.down = set()
    clock.move(minutes=10)
    post.round()
    assert (
        post.texts(DEFAULT)[1]
        == "412 jobs, none failed.\n\nResolved: 1 cause.\n- health: db.a has a score of 31, below 50. https://a.example/snowpack/ui/tables/db.a"
    )


@pytest.mark.one_database
def test_text_of_an_error_is_never_rendered_or_repeated_with_its_secrets(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_PASSWORD", "v3ry-s3cret")
    sentence = "db.a: {{ var.value.key }} of postgresql://u:pw@host/db and v3ry-s3cret"
    post.round(NotificationCause(CauseKind.FAILURE, "a", "", sentence, "/jobs/1"))
    assert post.texts(DEFAULT)[0].startswith("- failure: db.a: {{ var.value.key }} of postgresql://host/db and *** http")


def test_a_round_writes_to_its_own_tables_alone_in_a_number_of_statements_that_does_not_grow_with_causes(
    post: Post, clock: MovedClock
) -> None:
    seen: list[str] = []
    numbers = []
    post.round()
    sa.event.listen(post.store.engine, "before_cursor_execute", lambda conn, cursor, statement, *_: seen.append(statement))
    for causes in (1, 2_000):
        seen.clear()
        clock.move(minutes=20)
        post.round(*(cause(f"db.{causes}_{number}") for number in range(causes)))
        numbers.append(len(seen))
    assert numbers[0] == numbers[1]
    written = {name for each in seen for name in re.findall(r"^(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)", each)}
    assert written == {"notifications", "notification_receivers"}


def test_old_causes_are_pruned_once_they_are_resolved_and_sent(post: Post, clock: MovedClock) -> None:
    from airflow_snowpack.notifications.records import KINDS
    from airflow_snowpack.store.retention import Pruner

    post.down = {"ana"}
    post.round(cause("db.old"), cause("db.open"), cause("db.unsent", "ana"))
    for days in (1, 200):
        clock.move(days=days)
        Notifications(post.store).record([cause("db.open")])
    Pruner(post.store, KINDS, older_than=timedelta(days=180)).run()
    kept = {row.sentence.split()[0] for row in post.store.all(sa.select(notifications))}
    assert kept == {"db.open", "db.unsent"}


SUBJECTS = ("db.a", "db.b", "db.c")
STEPS = st.fixed_dictionaries(
    {
        "present": st.sets(st.sampled_from(SUBJECTS)),
        "down": st.sets(st.sampled_from(["ana", DEFAULT])),
        "killed": st.booleans(),
        "minutes": st.sampled_from([5, 20, 70, 700]),
    }
)


@settings(max_examples=15, suppress_health_check=[*HealthCheck])
@given(steps=st.lists(STEPS, min_size=1, max_size=12))
def test_in_random_worlds_each_period_of_a_cause_is_sent_once_and_again_only_after_a_kill(
    post: Post, clock: MovedClock, steps: list[dict[str, Any]]
) -> None:
    for table in (notifications, notification_receivers):
        post.store.execute(sa.delete(table))
    world, periods, kills, previous = Post(post.store), Counter[str](), 0, set[str]()
    gone = dict[str, datetime]()
    quiet = {"present": steps[-1]["present"], "down": set(), "killed": False, "minutes": 120}
    for step in (*steps, quiet, quiet):
        clock.move(minutes=step["minutes"])
        unsent = {each.sentence.split()[0] for each in Notifications(world.store).read()}
        gone |= dict.fromkeys(previous - step["present"], clock.now)
        flaps = {subject for subject, since in gone.items() if clock.now - since < timedelta(hours=1)}
        periods.update(step["present"] - previous - unsent - flaps)  # what comes back before anybody was notified continues
        previous, world.down, world.killed = step["present"], step["down"], step["killed"]
        kills += world.killed
        with suppress(Killed):
            world.round(*(cause(subject, "" if subject == "db.c" else "ana") for subject in sorted(previous)))
    sent = Counter(each.sentence.split()[0] for _, message in world.got for each in message.causes)
    assert Notifications(world.store).read() == []
    assert all(periods[subject] <= sent[subject] <= periods[subject] + kills for subject in SUBJECTS), (periods, sent, kills)


def test_no_message_names_a_page_that_the_app_does_not_have() -> None:
    from airflow_snowpack.api.pages.router import router

    paths = {re.sub(r"\{[^}]*\}", "x", getattr(route, "path", "")).removeprefix("/ui") for route in router.routes}
    source = (Path(__file__).parents[3] / "airflow_snowpack" / "notifications" / "causes.py").read_text()
    named = {re.sub(r"\{[^}]*\}", "x", path) for path in re.findall(r'"(/[a-z{][^"]*|/)"', source)}
    assert named
    assert named <= paths
