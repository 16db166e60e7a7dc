"""Run an entry in a task: its inputs are written to an exchange folder, a runner runs it, and its outputs become interim tables.

    class MyOperator(RunsEntry):
        def prepared(self, context, handover):
            return Prepared(ShellEntry(("score", "{inputs}/flights")), inputs={"flights": handover.recorded(ref)})

The invariant: nothing of a failed, killed or superseded attempt reaches another task. All inputs are pinned before any is
written, the entry has ended successfully before any output is read, all outputs are written before the fenced commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_snowpack.airflow_versions import OwnRendering
from airflow_snowpack.operators.entries.arguments import ISOLATED, check_options, check_place, check_python
from airflow_snowpack.operators.interim import HandsOver
from airflow_snowpack.runners.entry import check_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context

    from airflow_snowpack.interim.handover import TableHandover
    from airflow_snowpack.interim.model import TaskAttempt
    from airflow_snowpack.interim.refs import Ref
    from airflow_snowpack.operators.entries.built_image import BuiltImage
    from airflow_snowpack.operators.entries.exchanged_tables import ExchangedTables
    from airflow_snowpack.runners import Exchanges
    from airflow_snowpack.runners.entry import Entry
    from airflow_snowpack.runners.exchange import EntryResult, Exchange
    from airflow_snowpack.runners.images import ImageBuild
    from airflow_snowpack.runners.invocation import OutputLine, Runner

LONGEST_WAIT = timedelta(days=7)
"""How long the exchange folder of a deferred task without a time limit is kept."""


@dataclass(frozen=True, slots=True)
class PreparedEntry:
    """An entry and what it receives.

    :param args, kwargs: of a module entry, with references instead of tables.
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


@dataclass(frozen=True, slots=True)
class Resumption:
    """The end of a wait for an entry.

    :param event: of the trigger.
    :param mark: of the invocation.
    """

    event: Mapping[str, Any]
    mark: str | None


class RunsEntry(OwnRendering, HandsOver):
    """Base of the operators that run an entry.

    :param runner: where the entry runs: ``subprocess``, ``docker`` or ``kubernetes``.
    :param image: the prebuilt image of the container or pod, used as it is. (templated)
    :param build: the image as an :class:`~airflow_snowpack.runners.images.source.ImageBuild`, which the first task that needs it
        builds once. Either ``image`` or ``build``; neither for ``subprocess``.
    :param command_env: environment variables of the entry. Templates in their values are rendered when the task runs; the values
        are masked in logs, and are not part of the rendered templates.
    :param python: the interpreter that runs a function, by its name or path where the entry runs; ``None`` for the image's
        ``python3``, or the worker's interpreter for ``subprocess``.
    :param runner_options: more arguments of the provider's operator that runs the container or pod.
    """

    template_fields: Sequence[str] = (*HandsOver.template_fields, "image")
    _built_image: BuiltImage | None = None

    def __init__(
        self,
        *,
        runner: str,
        image: str | None = None,
        build: ImageBuild | None = None,
        command_env: Mapping[str, str] | None = None,
        python: str | None = None,
        runner_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_place(runner, image=image, build=build)
        check_options(runner, runner_options or {})
        check_environment(command_env or {})
        check_python(python)
        self.runner = runner
        self.image = image
        self.build = build
        self.command_env = dict(command_env or {})
        self.python = python
        self.runner_options = dict(runner_options or {})

    def prepared(self, context: Context, handover: TableHandover) -> PreparedEntry:
        """Return the entry and its arguments, with every table in them received."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        """Run the entry, after building its image if no task has needed it before.

        :returns: its result as an XCom: JSON, with references instead of tables.
        :raises AirflowFailException: a retry would fail again.
        :raises EntryFailed, EntryRaised: the entry failed; a retry may succeed.
        :raises TaskDeferred: another task builds the image, or the entry runs in a pod, without a worker.
        """
        return self._run_in(context, self.image if self.build is None else self._built(context, self.build))

    def image_ended(self, context: Context, event: Mapping[str, Any], commit: str) -> Any:
        """Run the entry after a wait for its image, at the commit that the revision pointed to when the wait began."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
        assert self.build is not None, "a task without a build does not wait for one"
        return self._run_in(context, self._built(context, self.build.at(commit)))

    def entry_ended(self, context: Context, event: Mapping[str, Any], image: str, mark: str | None) -> Any:
        """Return the result of an entry that has run without a worker.

        :param image: the image that it ran in.
        :param mark: of its invocation.
        """
        return self._run_in(context, image, Resumption(event, mark))

    def abandon(self, reason: str) -> None:
        """Stop the entry, or the build of its image, and discard what was written."""
        if self._built_image is not None:
            self._built_image.stop()
        super().abandon(reason)

    def _built(self, context: Context, build: ImageBuild) -> str:
        from airflow_snowpack.operators.entries.built_image import BuiltImage

        self._built_image = BuiltImage(self)
        return self._built_image.ensure(context, build)

    def _run_in(self, context: Context, image: str | None, resumption: Resumption | None = None) -> Any:
        from airflow_snowpack.operators.entries.exchanged_tables import ExchangedTables
        from airflow_snowpack.runners import Exchanges
        from airflow_snowpack.settings import Settings

        with self.handing_over(context) as handover:
            exchanges = Exchanges(Settings.load().runner_folder, handover.registry.store.identity)
            with self._opened(context, image, exchanges, handover, resumption) as runner:
                environment = self._masked_environment(context)
                prepared = self.prepared(context, handover)
                with self._exchange(exchanges, handover.attempt, prepared.entry, resumption) as exchange:
                    tables = ExchangedTables(handover, exchange, are_written=resumption is not None)
                    args, kwargs = self._with_tables(prepared, tables)
                    if resumption is None:
                        exchange.write_call(prepared.entry, args, kwargs, command_env=environment)
                    code = self._run(runner, exchange, handover, image, resumption)
                    return tables.handed_on(self._result(exchange, code), prepared.entry)

    def _masked_environment(self, context: Context) -> dict[str, str]:
        from airflow.sdk.log import mask_secret

        rendered = self.command_env if self._is_expanded("command_env") else self._rendered(self.command_env, context)
        check_environment(rendered)
        for value in rendered.values():
            for secret in {value, *value.splitlines()}:  # a log has the lines of a key one by one
                mask_secret(secret)
        return rendered

    def _rendered(self, texts: dict[str, str], context: Context) -> dict[str, str]:
        """Render templates to text, even in a DAG that renders native objects: ``1e5`` is text, not 100000.0."""
        before, self.render_template_as_native_obj = self.render_template_as_native_obj, False
        try:
            rendered: dict[str, str] = self.render_template(texts, context, self.get_template_env())
        finally:
            self.render_template_as_native_obj = before
        return rendered

    def _is_expanded(self, argument: str) -> bool:
        """Return whether ``expand`` sets the argument of a mapped task; it may be another task's result, but no template."""
        dag = self.get_dag()
        partial = None if dag is None else getattr(dag.get_task(self.task_id), "partial_kwargs", None)
        return partial is not None and argument not in partial

    @contextmanager
    def _exchange(
        self, exchanges: Exchanges, attempt: TaskAttempt, entry: Entry, resumption: Resumption | None
    ) -> Iterator[Exchange]:
        """Open the exchange folder, and remove it at the end of the block unless the entry still runs."""
        from airflow.providers.common.compat.sdk import TaskDeferred

        if resumption is None:
            exchange = exchanges.begin(attempt.task.name, attempt.id, shared=self.runner in ISOLATED)
        else:
            exchange = exchanges.resume(attempt.task.name, attempt.id, entry)
        try:
            yield exchange
        except TaskDeferred as deferred:
            exchange.leave(needed_for=deferred.timeout or LONGEST_WAIT)
            raise
        except BaseException:
            exchange.remove()
            raise
        exchange.remove()

    def _with_tables(self, prepared: PreparedEntry, tables: ExchangedTables) -> tuple[list[Any], dict[str, Any]]:
        """Write the inputs, and return the arguments with the inputs instead of references."""
        for name, ref in prepared.inputs.items():
            tables.write_input(name, ref)

        def passed(name: str, value: Any) -> Any:
            return tables.in_place_of_refs(name, value, prepared.forms.get(name))

        args = [passed(name, value) for name, value in zip(prepared.names, prepared.args, strict=True)]
        return args, {name: passed(name, value) for name, value in prepared.kwargs.items()}

    @contextmanager
    def _opened(
        self, context: Context, image: str | None, exchanges: Exchanges, handover: TableHandover, resumption: Resumption | None
    ) -> Iterator[Runner]:
        """Open the runner. A container or pod of a deferred task is removed if the block cannot resume it."""
        from airflow.providers.common.compat.sdk import TaskDeferred

        from airflow_snowpack.operators.entries.isolated_runner import IsolatedRunner, open_runner
        from airflow_snowpack.operators.entries.place import EntryIdentity, RunPlace

        identity = EntryIdentity(handover.attempt, handover.registry.store.identity)
        place = RunPlace(image, identity, self.runner_options, context, exchanges.root, self.execution_timeout)
        runner = open_runner(self.runner, place)
        try:
            yield runner
        except TaskDeferred:
            raise
        except BaseException:
            if resumption is not None and isinstance(runner, IsolatedRunner):
                runner.stop(resumption.event)
            raise

    def _run(
        self, runner: Runner, exchange: Exchange, handover: TableHandover, image: str | None, resumption: Resumption | None
    ) -> int:
        """Run the entry to its end, or defer the task until then; return the exit code."""
        from airflow.providers.common.compat.sdk import TaskDeferred

        from airflow_snowpack.operators.entries.isolated_runner import IsolatedRunner

        mark = None if resumption is None else resumption.mark

        def run() -> int:
            nonlocal mark
            if resumption is not None and isinstance(runner, IsolatedRunner):
                return runner.resume(resumption.event, mark, self._log_line)
            invocation = exchange.invocation(isolated=runner.isolated, inside=runner.inside, python=self.python)
            mark = invocation.mark
            return runner.run(invocation, self._log_line)

        try:
            return handover.supervise(run, stop=runner.stop)
        except TaskDeferred as waiting:
            arguments = {"image": image, "mark": mark}
            self.defer(trigger=waiting.trigger, timeout=waiting.timeout, method_name="entry_ended", kwargs=arguments)

    def _result(self, exchange: Exchange, code: int) -> EntryResult:
        result = exchange.result(code)
        if result.ignored:
            self.log.info("The entry also wrote %s, which no output declares: ignored", ", ".join(result.ignored[:10]))
        return result

    def _log_line(self, line: OutputLine) -> None:
        text = line.text if line.logger is None else f"{line.logger}: {line.text}"
        self.log.log(line.level, "%s", text)
