"""`python -m keyfold.dagster.serving.daemon`: run Dagster's daemon, one at a time per DAGSTER_HOME.

Two daemons on one DAGSTER_HOME launch every run twice, and Dagster only warns. This command locks the home as long as its
daemon lives. A second one stays passive, says so, and takes over when the first has ended. The arguments are those of
`dagster-daemon run`. A daemon that is started in another way does not take the lock.
"""

import os
import sys

from keyfold.dagster.serving.only_one import become_the_only_one
from keyfold.errors import KeyfoldError
from keyfold.machine.private_files import keep_files_private


def main() -> None:
    keep_files_private()
    try:
        become_the_only_one("daemon")
    except KeyfoldError as error:
        sys.exit(str(error))
    os.execv(sys.executable, [sys.executable, "-m", "dagster._daemon", "run", *sys.argv[1:]])  # noqa: S606


if __name__ == "__main__":
    main()
