"""The process that stands by: `python -m dagster_project.standby.process MODULE`, started by the launcher.

It loads the module and says `ready`; then it takes one line, the arguments of `dagster` as a JSON list and the run's
lock, executes the run and ends. When its input closes before that, its launcher is gone, and so is its purpose.
"""

import json
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

from dagster_project.standby.lock import hold

READY = "ready"


def main() -> None:
    import_module(sys.argv[1])
    print(READY, flush=True)
    line = sys.stdin.readline()
    if not line:
        return
    order = json.loads(line)
    # The launcher reads no more; a run's own output goes where its errors go.
    os.dup2(2, 1)
    with hold(Path(order["lock"])):
        sys.argv = ["dagster", *order["arguments"]]
        runpy.run_module("dagster", run_name="__main__")


if __name__ == "__main__":
    main()
