"""A Spark that starts with secrets among its settings, while everything that shows is looked at."""

import json
import os
import sys
import textwrap
from pathlib import Path

from tests.commands import ended_well
from tests.java_for_tests import fast_starts

PLANTED = {
    "spark.hadoop.fs.s3a.secret.key": "planted-s3",
    "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net": "planted-azure==",
    "spark.hadoop.javax.jdo.option.ConnectionPassword": "planted p\u00e4ss: w\u00f6rd=\\n#! \U0001f511",
    "spark.kafka.token": "planted-token",
    "spark.hadoop.database.url": "jdbc:postgresql://ann:planted-url@database/x",
}
INNOCENT = {"spark.hadoop.database.pin": "planted-pin"}
"""A secret by no name and no form: no setting is on the command line but those that Java's start needs."""
PROGRAM = textwrap.dedent("""
    import json, logging, os, sys, tempfile, threading
    from pathlib import Path
    from keyfold.errors import KeyfoldError
    from keyfold.session import SparkSettings, build_session

    word = os.environ["WORD"]
    lines, over = set(), threading.Event()

    def watch():
        while not over.wait(0.02):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    line = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                lines.add(line)

    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        session = build_session(SparkSettings.from_environment())
        hadoop = session._jsc.hadoopConfiguration()
        has = {
            name: session.conf.get(name) if name.startswith("spark.kafka") else hadoop.get(name.removeprefix("spark.hadoop."))
            for name in json.loads(os.environ["NAMES"])
        }
        rows = session.range(100).repartition(2).count()
        try:
            build_session(SparkSettings(conf={"spark.hadoop.fs.s3a.secret.key": "another"}))
        except KeyfoldError as error:
            print("refused:", error, file=sys.stderr)
        session.stop()
    finally:
        over.set()
        watcher.join()
    left = [str(path) for path in Path(tempfile.gettempdir()).rglob("*.properties")]
    seen = [line.decode(errors="replace") for line in lines if word.encode() in line]
    submitted = sum(b"spark.driver.memory" in line for line in lines)
    print(json.dumps({"has": has, "rows": rows, "seen": seen, "left": left, "submitted": submitted}))
""")


def run_with_secrets(folder: Path, master: str, **conf: str) -> tuple[dict, str]:
    """Start Spark with the planted settings and work with it, while everything that shows is looked at."""
    settings = " ".join(f"'{name}={value}'" for name, value in {**PLANTED, **INNOCENT, **conf}.items())
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    temporary = folder / "temporary"
    temporary.mkdir()
    environment |= {
        **fast_starts(),
        "KEYFOLD_SPARK_MASTER": master,
        "KEYFOLD_SPARK_CONF": settings,
        "NAMES": json.dumps([*PLANTED, *INNOCENT]),
        "WORD": "planted",
        "TMPDIR": str(temporary),
    }
    run = ended_well(sys.executable, "-c", PROGRAM, folder=folder, environment=environment)
    return json.loads(run.stdout.splitlines()[-1]), run.stderr


def check_nothing_shows(told: dict, errors: str) -> None:
    assert told["has"] == PLANTED | INNOCENT, "Spark has every setting, letter for letter"
    assert told["rows"] == 100
    assert told["submitted"], "the process list was read while Spark started"
    assert told["seen"] == []
    assert told["left"] == []
    assert "planted" not in errors
    # (The word is in no path either: a test's name is in its folder's.)
    assert "refused: a Spark session with other settings (spark." in errors
