"""Secrets among Spark's settings: planted, and looked for wherever other people or programs can read."""

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest
from pydantic import ValidationError

from keyfold.errors import KeyfoldError
from keyfold.secret_settings import is_secret, secret_java_options, without_secrets
from keyfold.session import SparkSettings
from keyfold.session.start import check_same
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


@pytest.mark.parametrize(
    ("name", "value", "is_hidden"),
    [
        *((name, value, True) for name, value in PLANTED.items()),
        ("spark.hadoop.fs.s3a.access.key", "planted", True),
        ("spark.ssl.keyPassword", "planted", True),
        ("spark.authenticate.secret", "planted", True),
        ("spark.x.api-key", "planted", True),
        ("spark.hadoop.fs.azure.sas.box.account", "planted", True),
        ("spark.hadoop.x.credentials", "planted", True),
        ("spark.x.PASSWD", "planted", True),
        ("spark.x.privateKey", "planted", True),
        ("spark.driver.memory", "4g", False),
        ("spark.sql.shuffle.partitions", "4", False),
        ("spark.master", "spark://host:7077", False),
        ("spark.hadoop.fs.s3a.endpoint", "https://s3.example.org:9000/x@y", False),
        ("spark.sql.warehouse.dir", "/data/massas/warehouse", False),
    ],
)
def test_a_setting_is_a_secret_by_its_name_or_by_what_its_value_looks_like(name, value, is_hidden):
    assert is_secret(name, value) == is_hidden


def test_text_of_others_loses_every_secret_the_longest_first():
    settings = {"spark.a.password": "planted", "spark.b.password": "planted-longer", "spark.c.password": "no"}
    assert without_secrets("no: planted-longer, planted", settings) == "no: (hidden), (hidden)"


def test_sessions_that_differ_in_a_secret_say_so_without_it():
    name = "spark.hadoop.fs.s3a.secret.key"
    running, wanted = SparkSettings(conf={name: "planted-old"}), {name: "planted-new", "spark.driver.memory": "3g"}
    with pytest.raises(KeyfoldError) as raised:
        check_same(running, SparkSettings(conf=wanted))
    assert f"with other settings (spark.driver.memory, {name}) runs already" in str(raised.value)
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    "conf",
    [
        "spark.x.secret=planted-a planted-b",
        "spark.x.secret='planted",
        "spark.x.secret=planted master=x",
        "spark.x.secret=planted spark.master=yarn",
        "spark.x.secret=planted spark.sql.session.timeZone=planted",
        "spark.driver.extraJavaOptions=-Djavax.net.ssl.trustStorePassword=planted",
    ],
)
def test_a_wrong_setting_is_told_without_the_others_values(conf):
    with pytest.raises(KeyfoldError, match=r"^KEYFOLD_SPARK_CONF: ") as raised:
        SparkSettings.from_environment({"KEYFOLD_SPARK_CONF": conf})
    assert "planted" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_pydantic_does_not_repeat_what_was_given():
    with pytest.raises(ValidationError) as raised:
        SparkSettings(conf={"spark.hadoop.fs.s3a.secret.key": "planted", "wrong": "planted"})
    assert "planted" not in str(raised.value)


def test_secrets_among_java_s_options_are_refused_with_the_remedy():
    assert secret_java_options("-Xmx1g -Dfoo=1 -Da.passWord=x -Db.token=y") == ["a.passWord", "b.token"]
    with pytest.raises(ValidationError, match=r"every user of the machine.*@/path"):
        SparkSettings(conf={"spark.executor.extraJavaOptions": "-Da.password=x"})


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


def test_secrets_reach_spark_and_are_in_no_command_line_no_log_and_no_error(tmp_path):
    check_nothing_shows(*run_with_secrets(tmp_path, "local[1]"))
