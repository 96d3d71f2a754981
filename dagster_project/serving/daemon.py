"""`python -m dagster_project.serving.daemon`: Dagster's daemon, of which a home has one at a time.

Two daemons on one home launch every run twice and only warn of it. This takes a lock in the home, and holds it for as
long as the daemon lives; who finds it held says so, stays passive, and takes over when the other one has ended, in
whatever way. Arguments are those of `dagster-daemon run`. Of a daemon that was started otherwise nobody knows.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from platform import node

from spark_jobs.locks import A_LOOK, open_lock, take
from spark_jobs.private_files import keep_files_private

LOCK = "daemon.lock"


def main() -> None:
    keep_files_private()
    home = os.environ.get("DAGSTER_HOME")
    if not home or not Path(home).is_dir():
        sys.exit(f"DAGSTER_HOME is {home or 'not set'}: set it to the folder that Dagster keeps its runs in")
    _take(Path(home) / LOCK)
    os.execv(sys.executable, [sys.executable, "-m", "dagster._daemon", "run", *sys.argv[1:]])  # noqa: S606


def _take(lock: Path) -> None:
    """Hold the lock from now on, as soon as nobody else does."""
    descriptor = open_lock(lock)
    try:
        take(descriptor, seconds=A_LOOK)
    except BlockingIOError:
        told = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
        print(
            f"the daemon of {lock.parent} runs already ({told}): this one is passive, and takes over when that one ends",
            file=sys.stderr,
            flush=True,
        )
        take(descriptor)
        print(f"the daemon of {lock.parent} has ended: this one takes over", file=sys.stderr, flush=True)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {node()} since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC".encode(), 0)
    # The daemon that this process becomes holds it on; what the daemon starts does not.
    os.set_inheritable(descriptor, True)


if __name__ == "__main__":
    main()
