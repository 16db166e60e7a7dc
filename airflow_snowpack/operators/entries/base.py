"""Run an entry in a task: its inputs go into an exchange folder, a runner runs it, and its outputs become interim tables.

    class MyOperator(RunsEntry):
        def prepared(self, context, handover):
            return Prepared(ShellEntry(("score", "{inputs}/flights")), inputs={"flights": handover.recorded(ref)})

The order keeps the promises: all inputs are pinned before any is written; the entry has ended successfully before any of its
outputs is read; all outputs are written before any is committed; and the commit is fenced. So nothing of a failed, killed or
superseded attempt reaches another task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.entries.arguments import check_environment, check_place
from airflow_snowpack.operators.interim import HandsOver
from airflow_snowpack.runners.entry import ModuleEntry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_snowpack.interim.handover import Handover
    from airflow_snowpack.interim.refs import Ref
    from airflow_snowpack.runners.entry import Entry
    from airflow_snowpack.runners.exchange import Exchange
    from airflow_snowpack.runners.invocation import Line


@dataclass(frozen=True, slots=True)
class Prepared:
    """An entry and what it receives.

    :param args: of a module entry, with references in place of tables; likewise ``kwargs``.
    :param inputs: of a shell entry, by their names.
    :param names: the parameter of each of ``args``; it names the inputs in them.
    :param forms: in which form a parameter receives its tables; see :class:`~airflow_snowpack.runners.entry.InputTable`.
    """

    entry: Entry
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Ref] = field(default_factory=dict)
    names: Sequence[str] = ()
    forms: Mapping[str, str] = field(default_factory=dict)


class RunsEntry(HandsOver):
    """Base of the operators that run an entry.

    :param runner: where the entry runs: ``subprocess``, ``docker`` or ``kubernetes``.
    :param image: the prebuilt image of the container or pod, used as it is. (templated)
    :param build: the image as an :class:`~airflow_snowpack.runners.images.source.ImageBuild`, which is built once, by the first
        task that needs it. Either ``image`` or ``build``, and neither for ``subprocess``.
    :param command_env: environment variables of the entry. Templates in their values are rendered when the task runs; the values
        are masked in logs, and are not part of the rendered templates.
    :param runner_options: further arguments of the operator of Airflow's provider that runs the container or pod.
    """

    template_fields: Sequence[str] = (*HandsOver.template_fields, "image")

    def __init__(
        self,
        *,
        runner: str,
        image: str | None = None,
        build: Any = None,
        command_env: Mapping[str, str] | None = None,
        runner_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_place(runner, image=image, build=build)
        check_environment(command_env or {})
        self.runner = runner
        self.image = image
        self.build = build
        self.command_env = dict(command_env or {})
        self.runner_options = dict(runner_options or {})

    def prepared(self, context: Context, handover: Handover) -> Prepared:
        """Return the entry and its arguments, with every table in them received."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        """Run the entry.

        :returns: its result as an XCom: JSON, with references in place of tables.
        :raises AirflowFailException: a retry would fail again.
        :raises EntryFailed, EntryRaised: the entry failed; a retry may succeed.
        """
        with self.handing_over(context) as handover:
            environment = self._masked_environment(context)
            prepared = self.prepared(context, handover)
            with self._exchange(handover) as exchange:
                self._write(prepared, exchange, handover, environment)
                return self._run(prepared.entry, exchange, handover)

    def _masked_environment(self, context: Context) -> dict[str, str]:
        from airflow.sdk.log import mask_secret

        rendered: dict[str, str] = self.render_template(self.command_env, context, self.get_template_env())
        check_environment(rendered)
        for value in rendered.values():
            for secret in {value, *value.splitlines()}:  # a log has the lines of a key one by one
                mask_secret(secret)
        return rendered

    def _exchange(self, handover: Handover) -> Exchange:
        from airflow_snowpack.operators.entries.arguments import ISOLATED
        from airflow_snowpack.runners.exchanges import Exchanges
        from airflow_snowpack.settings import Settings

        attempt = handover.attempt
        exchanges = Exchanges(Settings.load().runner_folder)
        return exchanges.begin(attempt.task.name, attempt.id, shared=self.runner in ISOLATED)

    def _write(self, prepared: Prepared, exchange: Exchange, handover: Handover, environment: Mapping[str, str]) -> None:
        from airflow_snowpack.operators.entries.exchanged_tables import Inputs

        inputs = Inputs(handover, exchange)
        for name, ref in prepared.inputs.items():
            inputs.write(name, ref)

        def passed(name: str, value: Any) -> Any:
            return inputs.in_place_of_refs(name, value, prepared.forms.get(name))

        if isinstance(prepared.entry, ModuleEntry):
            args = [passed(name, value) for name, value in zip(prepared.names, prepared.args, strict=True)]
            kwargs = {name: passed(name, value) for name, value in prepared.kwargs.items()}
            exchange.write_call(prepared.entry, args, kwargs, command_env=environment)
        else:
            exchange.write_call(prepared.entry, command_env=environment)

    def _run(self, entry: Entry, exchange: Exchange, handover: Handover) -> Any:
        from airflow_snowpack.operators.entries.exchanged_tables import handed_on
        from airflow_snowpack.operators.entries.runner_choice import open_runner

        with self.kill_postponed():
            runner = open_runner(self.runner)
        invocation = exchange.invocation(isolated=runner.isolated, inside=runner.inside)
        code = handover.supervise(lambda: runner.run(invocation, self._log_line), stop=runner.stop)
        result = exchange.result(code)
        if result.ignored:
            self.log.info("The entry also wrote %s, which no output declares: ignored", ", ".join(result.ignored[:10]))
        return handed_on(result, exchange, handover, entry)

    def _log_line(self, line: Line) -> None:
        text = line.text if line.logger is None else f"{line.logger}: {line.text}"
        self.log.log(line.level, "%s", text)
