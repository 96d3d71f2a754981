"""Secrets among Spark's settings: planted, and looked for wherever other people or programs can read."""

import pytest
from pydantic import ValidationError

from keyfold.errors import KeyfoldError
from keyfold.secret_settings import is_secret, secret_java_options, without_secrets
from keyfold.session import SparkSettings
from keyfold.session.start import check_same
from tests.keyfold.session.planted_secrets import PLANTED, check_nothing_shows, run_with_secrets


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


def test_secrets_reach_spark_and_are_in_no_command_line_no_log_and_no_error(tmp_path):
    check_nothing_shows(*run_with_secrets(tmp_path, "local[1]"))
