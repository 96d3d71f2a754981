"""Runs of a job in processes that are killed or frozen at a moment: forked off one that has imported all that they need.

`python -m tests.keyfold.keyed.forked_runs` takes requests, a JSON a line, and answers each in a line:

- {"home", "mode", "kill": point}             a run that is killed there;
- {"home", "mode", "freeze": n}               a run that is frozen between its n-th look at its lease and the write after it;
- {"thaw": pid}                               goes on, and is waited for.
"""

import json
import os
import signal
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from keyfold.keyed import runner
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.lakehouse import Lakehouse, carrying, commits, fail_points, row_erasure
from keyfold.storage import bucket, lease
from tests.keyfold.keyed.toy_jobs import totals
from tests.keyfold.keyed.without_spark import SPARK

LASTS = timedelta(seconds=3)
REFUSED = 7
FILE_BY_FILE = runner.RunOptions(max_bytes_per_batch=1)
MODES = {"incremental": Incremental(), "full_refresh": FullRefresh()}


def main() -> None:
    """Take requests until standard input ends."""
    folder = Path(tempfile.mkdtemp())
    running: dict[int, Path] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "thaw" in request:
            child = request["thaw"]
            os.kill(child, signal.SIGCONT)
        else:
            log = folder / f"{len(running)}.log"
            child = os.fork()
            if not child:
                _run(request, log)
            running[child] = log
        _, status = os.waitpid(child, os.WUNTRACED)
        answer = {
            "pid": child,
            "frozen": os.WIFSTOPPED(status),
            "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "told": running[child].read_text() if running[child].exists() else "",
        }
        print(json.dumps(answer), flush=True)


def _run(request: dict, log: Path) -> None:
    """What a child does; it never returns."""
    lease.LASTS = LASTS
    if "kill" in request:
        os.environ[fail_points.VARIABLE] = request["kill"]
    if "freeze" in request:
        _freeze_behind_look(request["freeze"])
    try:
        lakehouse = Lakehouse(request["home"])
        runner.run_job(lakehouse, totals(), MODES[request["mode"]], options=FILE_BY_FILE, runners=SPARK)
    except Exception as error:
        log.write_text(f"{type(error).__name__}: {error}")
        os._exit(REFUSED)
    os._exit(0)


def _freeze_behind_look(wanted: int) -> None:
    looks = 0

    def look() -> None:
        nonlocal looks
        lease.check_held()
        if looks == wanted:
            os.kill(os.getpid(), signal.SIGSTOP)
        looks += 1

    for module in (bucket, commits, carrying, row_erasure):
        setattr(module, "check_held", look)  # noqa: B010 - as above


if __name__ == "__main__":
    main()
