"""What one task of a build hands to the next by XCom: which run it is, and what a manifest says beside the winners.

handed = Handover.read(self.build)                    # the XCom of the step before, rendered to text or not
handed.run_id, handed.sharding.num_shards, handed.build_input.columns
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airflow_snowpack.operators.arguments import UnreadableArgument, read_object

if TYPE_CHECKING:
    from airflow_snowpack.builds.build_spec import BuildInput
    from airflow_snowpack.builds.model import ShardFormat, Sharding

EXPECTED = "what the task before returned: build=write.output"


@dataclass(frozen=True, slots=True)
class Handover:
    """A run between two tasks."""

    dataset: str
    run_id: str
    sharding: Sharding
    shard_format: ShardFormat
    build_input: BuildInput

    def to_json(self) -> dict[str, Any]:
        """As XCom keeps it."""
        from airflow_snowpack.builds.json_format import sharding_json

        return {
            "dataset": self.dataset,
            "run_id": self.run_id,
            "sharding": sharding_json(self.sharding),
            "shard_format": self.shard_format.value,
            "input": self.build_input.as_dict(),
        }

    @classmethod
    def read(cls, value: object) -> Self:
        """:raises UnreadableArgument: it is not what :meth:`to_json` gave."""
        from airflow_snowpack.builds.build_spec import BuildInput
        from airflow_snowpack.builds.json_format import read_sharding
        from airflow_snowpack.builds.model import ShardFormat

        dataset, run_id = named_run(value)
        content = read_object("build", value)
        try:
            return cls(
                dataset,
                run_id,
                read_sharding(content["sharding"]),
                ShardFormat(content["shard_format"]),
                BuildInput.from_dict(content["input"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise UnreadableArgument("build", value, EXPECTED) from problem


def named_run(value: object) -> tuple[str, str]:
    """The dataset and the run that a step's XCom names.

    :raises UnreadableArgument: it names none.
    """
    content = read_object("build", value)
    dataset, run_id = content.get("dataset"), content.get("run_id")
    if not isinstance(dataset, str) or not isinstance(run_id, str):
        raise UnreadableArgument("build", value, EXPECTED)
    return dataset, run_id


def dataset_of(build: object) -> str | None:
    """The dataset that an operator's output is of, as far as the DAG file tells; ``None`` when only the run will."""
    return getattr(getattr(build, "operator", None), "dataset", None)
