"""What each target wants is told before anything starts."""

from pathlib import Path

import pytest

from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.settings import spark_conf
from keyfold.session.targets import check_target

HOME = Path("/mnt/keyfold/home")
SECRET = {"spark.authenticate.secret": "planted"}
HOST = {"spark.driver.host": "10.0.0.1"}
STAGING = {"spark.yarn.stagingDir": "hdfs://names:8020/user/keyfold"}
IMAGE = {"spark.kubernetes.container.image": "keyfold:1"}
VOLUME = {"spark.kubernetes.executor.volumes.persistentVolumeClaim.home.mount.path": "/mnt/keyfold"}


@pytest.fixture
def hadoop(tmp_path):
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    return {"HADOOP_CONF_DIR": str(tmp_path)}


def test_on_one_machine_nothing_more_is_wanted():
    check_target("local[2]", {}, HOME, {})


def test_each_cluster_with_all_that_it_wants_passes(hadoop):
    check_target("spark://one:7077", HOST | SECRET, HOME, {})
    check_target("spark://one:7077", HOST | {"spark.authenticate.secret.file": "/etc/keyfold/secret"}, HOME, {})
    check_target("spark://127.0.0.1:7077", SECRET, HOME, {})
    check_target("spark://one:7077", HOST | {"spark.authenticate": "false"}, HOME, {})
    check_target("yarn", HOST | STAGING, HOME, hadoop)
    check_target("k8s://https://api:6443", HOST | IMAGE | VOLUME, HOME, {})


@pytest.mark.parametrize(
    ("master", "conf", "message"),
    [
        ("spark://one:7077", SECRET, "spark.driver.host, this machine.s address for executors"),
        ("spark://127.0.0.1:7077,two:7077", SECRET, "spark.driver.host"),
        ("spark://one:7077", HOST, "spark.authenticate.secret, the same as on the master and all workers"),
        (
            "spark://one:7077",
            HOST | SECRET | {"spark.submit.deployMode": "cluster"},
            "must be client: the driver is this process",
        ),
        ("yarn", HOST | STAGING, "the variable HADOOP_CONF_DIR"),
        ("yarn", HOST | {"spark.yarn.stagingDir": "/user/keyfold"}, "spark.yarn.stagingDir, a full URL"),
        ("k8s://https://api:6443", HOST | VOLUME, "spark.kubernetes.container.image"),
        ("k8s://https://api:6443", HOST | IMAGE, "a volume for the lakehouse in executors"),
        (
            "k8s://https://api:6443",
            HOST | IMAGE | {"spark.kubernetes.executor.volumes.persistentVolumeClaim.home.mount.path": "/data"},
            "a volume that holds the lakehouse /mnt/keyfold/home at the same path .*; mounted are /data",
        ),
    ],
)
def test_what_a_cluster_lacks_is_named(master, conf, message):
    with pytest.raises(KeyfoldError, match=f"(?s)Spark on .* needs more settings .*{message}"):
        check_target(master, conf, HOME, {})


def test_all_that_is_missing_is_told_at_once_and_no_secret():
    with pytest.raises(KeyfoldError) as raised:
        check_target("yarn", SECRET, HOME, {"HADOOP_CONF_DIR": "/no/such/folder"})
    told = str(raised.value)
    assert "spark.driver.host" in told
    assert "a yarn-site.xml in /no/such/folder" in told
    assert "spark.yarn.stagingDir" in told
    assert "planted" not in told


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
        check_target("local[2]", conf, HOME, environment)


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
