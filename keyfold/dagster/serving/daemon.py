"""`python -m keyfold.dagster.serving.daemon`: Dagster's daemon, of which a home has one at a time.

Two daemons on one home launch every run twice and only warn of it. This takes a lock in the home, and holds it for as
long as the daemon lives; who finds it held says so, stays passive, and takes over when the other one has ended, in
whatever way. Arguments are those of `dagster-daemon run`. Of a daemon that was started otherwise nobody knows.
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
