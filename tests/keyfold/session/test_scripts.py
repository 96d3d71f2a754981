"""Scripts with Spark end when their last line has run, however they end, and leave no Java and no file."""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from tests.java_for_tests import fast_starts
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
BEGIN = """
import gc, os, signal, sys, threading, time
from contextlib import suppress
from keyfold import Runners
from keyfold.errors import Unreachable
from keyfold.session import SparkSettings, build_session, start
settings = SparkSettings(master="local[1]")
def check(runners):
    assert runners.for_bytes(0).map(str, [1, 2]) == ["1", "2"]
def sleep(_):
    time.sleep(300)
"""

SCRIPTS = {
    "without with, where one of two runners is collected": (
        """
        first, second = Runners("spark", settings), Runners("spark", settings)
        check(first)
        check(second)
        assert first.session is second.session
        del first
        gc.collect()
        check(second)
        """,
        0,
    ),
    "an exception, after two at once of which one leaves, and a third": (
        """
        with Runners("spark", settings) as first:
            check(first)
            with Runners("spark", settings) as second:
                check(second)
            check(first)
            session = first.session
        with Runners("spark", settings) as third:
            assert third.session is not session
            check(third)
        runners = Runners("spark", settings)
        check(runners)
        raise ValueError("of the script")
        """,
        1,
    ),
    "sys.exit in a with, after the caller's session was handed over, and found": (
        """
        session = build_session(settings)
        for given in (session, settings):
            with Runners("spark", given) as runners:
                check(runners)
            del runners
            gc.collect()
        assert session.range(3).count() == 3
        session.stop()
        with Runners("spark", settings) as runners:
            check(runners)
            sys.exit(7)
        """,
        7,
    ),
    "a plain session of PySpark, which is not ours": (
        """
        from pyspark.sql import SparkSession
        os.environ["PYSPARK_PYTHON"] = sys.executable
        session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        with Runners("spark", session) as runners:
            check(runners)
        assert session.range(3).count() == 3
        try:
            Runners("spark", settings).session
        except Exception as error:
            assert 'use it by Runners("spark", session)' in str(error), error
        session.stop()
        """,
        0,
    ),
    "a daemon thread with work on Spark": (
        """
        runners = Runners("spark", settings)
        check(runners)
        def work():
            with suppress(Exception):  # it is cut off
                runners.spark.map(sleep, [1])
        threading.Thread(target=work, daemon=True).start()
        time.sleep(2)
        """,
        0,
    ),
    "an interrupt while Java starts": (
        """
        def interrupt():
            while "PYSPARK_PYTHON" not in os.environ:  # Java is launched next, which takes a second
                time.sleep(0.01)
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        Runners("spark", settings).session
        """,
        -signal.SIGINT,
    ),
    "an interrupt of a task, which cancels it, and the session works on": (
        """
        def interrupt():
            time.sleep(2)
            os.kill(os.getpid(), signal.SIGINT)
        runners = Runners("spark", settings)
        check(runners)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            runners.spark.map(sleep, [1])
        except KeyboardInterrupt:
            check(runners)
            raise
        """,
        -signal.SIGINT,
    ),
    "an interrupt, as Dagster raises it, of a caller's own call of Spark": (
        """
        class Interrupted(BaseException):
            pass
        def interrupted(*_):
            raise Interrupted
        signal.signal(signal.SIGINT, interrupted)
        begun = os.path.abspath("begun")
        def long(rows):
            open(begun, "w").close()
            time.sleep(300)
            yield from rows
        def interrupt():
            while not os.path.exists(begun):
                time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        with Runners("spark", settings) as runners:
            session = runners.session
            # Not after some seconds: Spark cancels no job that it has yet to begin.
            threading.Thread(target=interrupt, daemon=True).start()
            try:
                session.range(2).mapInArrow(long, "id long").collect()
            except Interrupted:
                assert session.range(3).count() == 3
            else:
                raise AssertionError("not interrupted")
        """,
        0,
    ),
    "a Java that was killed": (
        """
        runners = Runners("spark", settings)
        check(runners)
        start._java.kill()
        start._java.wait()
        for call in (lambda: check(runners), runners.check_alive):
            try:
                call()
            except Unreachable as error:
                assert str(error).startswith("Spark's Java process has ended: somebody killed it, or the machine ran out")
            else:
                raise AssertionError("not noticed")
        """,
        0,
    ),
}
"""Lines, and the exit code with which they end."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_within_seconds_and_leaves_neither_java_nor_files(tmp_path, name):
    body, code = SCRIPTS[name]
    script, temporary = tmp_path / "script.py", tmp_path / "temporary"
    temporary.mkdir()
    script.write_text(BEGIN + textwrap.dedent(body) + "\nprint('end')\n")
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    environment |= fast_starts() | {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    # Longer than a start on a busy machine, and shorter than a task here: what hangs would never end.
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert (done.stdout == "end\n") == (code == 0)
    # PySpark's own server prints, in a thread, what it thinks of a Java that is gone.
    if not name.startswith("a Java"):
        assert done.stderr.count("Traceback") == (code in (1, -signal.SIGINT)), done.stderr
    # Java sees that Python has ended, and ends.
    wait_until(lambda: not javas(temporary), "Java still runs")
    if "was killed" not in name:
        assert [path.name for path in temporary.iterdir() if not path.name.startswith("hsperfdata")] == []


def javas(folder: Path) -> list[str]:
    """The Java processes that a script has started whose folder for temporary files this is."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if (
                "java" in command.partition(" ")[0]
                and f"TMPDIR={folder}".encode() in (process / "environ").read_bytes()
            ):
                commands.append(command)
    return commands
