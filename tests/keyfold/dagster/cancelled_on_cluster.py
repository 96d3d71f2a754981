"""Definitions with one asset whose tasks on the workers say where they run, and would go on for ten minutes."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import dagster as dg

from keyfold.dagster import Keyfold, KeyfoldResource


@dg.asset
def long_work(keyfold: dg.ResourceParam[Keyfold]) -> None:
    told = Path(os.environ["TOLD"])

    def work(_: Iterable[int]) -> Iterator[int]:
        (told / str(os.getpid())).touch()
        time.sleep(600)
        yield 0

    keyfold.runners.session.sparkContext.parallelize(range(1), 1).mapPartitions(work).collect()


defs = dg.Definitions(
    assets=[long_work],
    resources={"keyfold": KeyfoldResource.from_environment()},
    jobs=[dg.define_asset_job("cancelled", [long_work.key], executor_def=dg.in_process_executor)],
)
