"""The templates and the files that they load: stylesheet, scripts and icon.

    template("jobs.html").render(…)
    versioned("page.css")               # the file's name with a digest of its content

Jinja's autoescape is on. The invariant: what comes from outside is text; a filter that returns ``Markup`` escapes its arguments.
"""

import re
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from airflow_snowpack import humanize
from airflow_snowpack.jobs import shown_status
from airflow_snowpack.wire.tone import tone_of

CODE = re.compile("`([^`]+)`")
CHANGE_WORDS = {
    "submit": "submitted",
    "dry_run": "previewed",
    "rerun": "ran again",
    "cancel": "cancelled",
    "delete": "deleted",
    "prune": "deleted old rows of",
    "drain_on": "switched drain mode on",
    "drain_off": "switched drain mode off",
    "drain_reason": "changed the reason of drain mode",
    "release_lock": "released the lock of",
    "sweep": "swept",
    "create_schedule": "created",
    "update_schedule": "changed",
    "delete_schedule": "deleted",
    "suspend_schedule": "suspended",
    "resume_schedule": "resumed",
    "run_schedule": "ran",
    "register_run": "registered",
    "update_run": "changed",
    "unregister_run": "unregistered",
    "enable_run": "enabled",
    "disable_run": "disabled",
    "run_registered": "ran",
    "send_event": "sent",
    "publish_build": "published",
    "rollback_build": "rolled back",
    "cleanup_builds": "cleaned up",
    "drop_interim": "released",
    "forget_interim": "removed the record of",
    "collect_interim": "collected",
    "sweep_interim": "swept",
    "adopt_interim": "taken over",
    "build_image": "requested",
    "forget_image": "forgot",
    "approve_removal": "approved",
    "reject_removal": "rejected",
    "restore_removal": "restored files of",
    "purge_removal": "deleted files in quarantine of",
}
"""The changes of the audit trail, as people read them after the name of the user."""


@cache
def environment(*packages: str) -> Environment:
    """Return the environment of the templates of these packages; of two with one name, that of the first package."""
    loader = ChoiceLoader([PackageLoader(package) for package in packages])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "number": humanize.number,
        "counted": humanize.plural,
        "size": humanize.size,
        "duration": humanize.duration,
        "ago": moment_ago,
        "left": moment_left,
        "clock": moment_clock,
        "since": moment_since,
        "sentence": sentence,
        "plain_action": plain_action,
        "change": lambda change: CHANGE_WORDS.get(change, plain_action(change)),
        "tone": tone_of,
        "shown_status": shown_status,
    }
    return made


def template(name: str) -> Template:
    return environment("airflow_snowpack.api.pages").get_template(name)


@cache
def content(name: str) -> bytes:
    return files("airflow_snowpack.api.pages").joinpath("static", name).read_bytes()


def versioned(name: str) -> str:
    """Return the name with the digest, for a link: browsers keep the file for good, and still see a new version at once."""
    return f"{name}?v={sha256(content(name)).hexdigest()[:12]}"


def moment_ago(moment: datetime, now: datetime) -> Markup:
    return _time(moment, "ago", humanize.ago(moment, now))


def moment_left(moment: datetime, now: datetime) -> Markup:
    """A moment to come, counted down every second."""
    left = moment - now
    past = left.total_seconds() <= 0
    return _time(moment, "left", f"ran out {humanize.ago(moment, now)}" if past else f"{humanize.duration(left)} left")


def moment_since(moment: datetime, now: datetime) -> Markup:
    """How long something has been going on, counted up every second."""
    return _time(moment, "since", humanize.duration(now - moment))


def moment_clock(moment: datetime) -> Markup:
    """Return an exact moment; the script shows it in the browser's time zone."""
    return _time(moment, "clock", humanize.timestamp(moment))


def sentence(text: humanize.Text | str) -> Markup:
    """Return text with `…` as code, and with times marked, so that the script shows them in the browser's time zone."""
    parts = (text,) if isinstance(text, str) else text.parts
    return Markup("").join(moment_clock(part) if isinstance(part, datetime) else _with_code(part) for part in parts)


def _with_code(text: str) -> Markup:
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(CODE.split(text)))


def plain_action(action: str) -> str:
    return action.replace("_", " ")


def _time(moment: datetime, shown_as: str, text: str) -> Markup:
    return Markup('<time datetime="{}" data-as="{}" title="{}">{}</time>').format(
        moment.isoformat(), shown_as, humanize.timestamp(moment), text
    )
