"""What each target wants is told before anything starts."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.spark_settings import spark_conf
from keyfold.session.targets import check_target

SECRET = {"spark.authenticate.secret": "planted"}
HOST = {"spark.driver.host": "10.0.0.1"}


def test_a_target_with_all_that_it_wants_passes():
    check_target("local[2]", {}, {})
    check_target("sc://one:15002", {}, {"SPARK_REMOTE": "sc://one:15002"})  # as after a first client in this process
    check_target("spark://127.0.0.1:7077", SECRET, {})
    for master in ("spark://one:7077", "yarn", "k8s://https://api:6443"):
        check_target(master, HOST, {})


@pytest.mark.parametrize(
    ("master", "conf", "message"),
    [
        ("spark://one:7077", SECRET, "spark.driver.host, this machine.s address for executors"),
        ("spark://127.0.0.1:7077,two:7077", SECRET, "spark.driver.host"),
        ("yarn", {}, "spark.driver.host"),
        (
            "spark://one:7077",
            HOST | SECRET | {"spark.submit.deployMode": "cluster"},
            "must be client: the driver is this process",
        ),
    ],
)
def test_what_a_cluster_lacks_is_named_and_no_secret(master, conf, message):
    with pytest.raises(KeyfoldError, match=f"Spark on .* needs more settings .*{message}") as raised:
        check_target(master, conf, {})
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    ("conf", "environment"),
    [
        ({"spark.remote": "sc://one"}, {}),
        ({"spark.api.mode": "connect"}, {}),
        ({}, {"SPARK_REMOTE": "sc://one"}),
        ({}, {"SPARK_CONNECT_MODE_ENABLED": "1"}),
        ({}, {"SPARK_API_MODE": "connect"}),
    ],
)
def test_what_asks_for_spark_connect_beside_another_master_is_refused(conf, environment):
    with pytest.raises(KeyfoldError, match=r"ask for Spark Connect: unset them, and give the server's address"):
        check_target("local[2]", conf, environment)


def test_without_an_address_of_its_own_a_driver_listens_on_loopback_and_connections_are_authenticated():
    conf = spark_conf(SparkSettings(master="spark://127.0.0.1:7077", conf=SECRET))
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"
    assert conf["spark.hadoop.fs.defaultFS"] == "file:///"


def test_what_is_given_is_taken_as_it_is():
    conf = spark_conf(SparkSettings(master="spark://one:7077", conf=HOST | {"spark.authenticate": "false"}))
    assert conf["spark.driver.host"] == "10.0.0.1"
    assert "spark.driver.bindAddress" not in conf, "Spark binds to the host's address then, and to no other"
    assert conf["spark.authenticate"] == "false"
    assert "spark.network.crypto.enabled" not in conf, "Spark refuses it without authentication"
