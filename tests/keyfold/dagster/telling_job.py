"""A job whose run config has a field of each kind that Dagster takes variables for."""

import dagster as dg
from pydantic import Field

from keyfold.dagster.run_config import checked_in_process_executor


class Tells(dg.Config):
    words: str
    maybe: str | None = None
    more: list[str] = Field(default_factory=list)
    by_name: dict[str, str] = Field(default_factory=dict)
    count: int = 0


@dg.op(out=dg.Out(dg.Nothing))
def tells(context: dg.OpExecutionContext, config: Tells) -> None:
    context.log.info(f"{config.words} {config.maybe} {config.more} {config.by_name} {config.count}")


@dg.job(executor_def=checked_in_process_executor)
def telling() -> None:
    tells()
