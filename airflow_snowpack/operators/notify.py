"""Send notifications by Airflow's notifiers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.operators.base import UsesCatalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import BaseNotifier, Context

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.maintenance.policies import Policies
    from airflow_snowpack.notifications import Delivery, Message

    Notifiers = BaseNotifier | Mapping[str, BaseNotifier]


class NoNotifier(SnowpackError, kind=Kind.MISCONFIGURED):
    """There is no notifier."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}. Pass a notifier of Airflow, or a mapping of owners to notifiers with the key '*' for all others, to "
            "NotifyOperator, or name one in [snowpack] notifiers, such as my_company.alerts:NOTIFIERS."
        )


class NotifyOperator(UsesCatalog):
    """Finds what people have to know about tables, jobs and schedules, and sends each cause once to its owner.

        NotifyOperator(task_id="notify", notifier={"*": mail, "payments": slack})

    Templated fields of the notifiers can use ``snowpack.title``, ``snowpack.text``, ``snowpack.causes`` and
    ``snowpack.is_digest``. A receiver that fails or takes longer than a minute is tried again in a later run of the task, which
    succeeds all the same.

    :param notifier: a notifier of Airflow, or notifiers by owner; ``"*"`` receives what has no owner, or an owner without a
        notifier. ``None``: those of ``[snowpack] notifiers``.
    :param digest: when the daily digest is sent, as a cron expression in the time zone of the DAG.
    :param score_below: tables with a lower health score are reported.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.

    Returns the number of ``causes`` that there are now, and ``sent`` and ``failed``: what happened by receiver.
    """

    template_fields: Sequence[str] = ("store_conn_id", "catalog_conn_id")

    def __init__(
        self, *, notifier: Notifiers | None = None, digest: str = "0 7 * * *", score_below: int = 50, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.notifier = notifier
        self.digest = digest
        self.score_below = score_below

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.notifications import Notifications, find_causes
        from airflow_snowpack.operators.housekeeping import sign_of_task
        from airflow_snowpack.store.signs_of_life import Role

        with self.installation() as hook:
            self._check_digest()
            notifiers = self._notifiers(hook)
            causes = find_causes(hook.store(), self._policies(hook), score_below=self.score_below)
            records = Notifications(hook.store())
            records.record(causes)
            done = self._deliver(context, hook, records, notifiers)
            sign_of_task(hook.store(), Role.NOTIFIER, context).beat()
        for each in done:
            if each.problem is not None:
                self.log.error("Not delivered to %s, and tried again later: %s", each.receiver, each.problem)
        return {
            "causes": len(causes),
            "sent": {each.receiver: each.causes for each in done if each.problem is None},
            "failed": {each.receiver: each.problem for each in done if each.problem is not None},
        }

    def _check_digest(self) -> None:
        from airflow_snowpack.operators.arguments import UnreadableArgument
        from airflow_snowpack.scheduling.cron import parse_cron

        try:
            parse_cron(self.digest)
        except ValueError:
            raise UnreadableArgument("digest", self.digest, "a cron expression such as '0 7 * * *'") from None

    def _deliver(
        self, context: Context, hook: SnowpackHook, records: Any, notifiers: Mapping[str, BaseNotifier]
    ) -> Sequence[Delivery]:
        from airflow_snowpack.links import pages_url
        from airflow_snowpack.notifications import deliver
        from airflow_snowpack.scheduling.cron import next_tick

        first = {id(notifier): owner for owner, notifier in reversed([*notifiers.items()])}
        zone = getattr(context.get("dag"), "timezone", "UTC")

        def send(owner: str, message: Message) -> None:
            copy(notifiers[owner])({**context, "snowpack": message})  # rendering replaces the notifier's templates

        def next_digest(after: datetime) -> datetime:
            return next_tick(self.digest, zone, after)

        owners = {owner: first[id(notifier)] for owner, notifier in notifiers.items()}
        return deliver(records, owners, send, lambda: self._headline(hook), next_digest, pages_url())

    def _headline(self, hook: SnowpackHook) -> str:
        from airflow_snowpack.inventory import Inventory, TableScores
        from airflow_snowpack.maintenance.digest import read_digest

        try:
            catalog = self.catalog_hook()
            inventory = Inventory(hook.store(), catalog.config.name, lambda: catalog.catalog, lambda: catalog.config.catalog_id)
            return f"{read_digest(hook.jobs(), TableScores(hook.store(), inventory)).headline}."
        except SnowpackError as problem:  # the rest is sent; the error may name paths
            self.log.warning("What maintenance did cannot be read: %s", problem)
            return f"What maintenance did cannot be read ({type(problem).__name__}); the log of the task has the error."

    def _notifiers(self, hook: SnowpackHook) -> Mapping[str, BaseNotifier]:
        from importlib import import_module

        given: Any = self.notifier
        if given is None and hook.settings.notifiers:
            module, _, name = hook.settings.notifiers.partition(":")
            try:
                given = getattr(import_module(module), name)
            except (ImportError, AttributeError) as problem:
                raise NoNotifier(f"[snowpack] notifiers = {hook.settings.notifiers} cannot be imported: {problem}") from problem
        by_owner = given if isinstance(given, Mapping) else {"*": given}
        if "*" not in by_owner or not all(callable(each) for each in by_owner.values()):
            raise NoNotifier(f"The notifier is a {type(given).__name__} that cannot be used")  # its text may be a secret
        return by_owner

    def _policies(self, hook: SnowpackHook) -> Policies | None:
        try:
            return hook.installation.policies
        except SnowpackError as problem:
            self.log.warning("Owners are only read from table properties, because the policies cannot be used: %s", problem)
            return None
