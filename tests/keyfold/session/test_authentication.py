"""A local Spark authenticates whoever asks it for blocks, which may have secrets, by a secret that is in no setting."""

import os
import re

import pytest

from keyfold.secret_settings import SENSITIVE
from keyfold.session.spark_settings import SparkSettings, spark_conf


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_every_local_session_authenticates_with_a_secret_that_no_setting_has(master):
    conf = spark_conf(SparkSettings(master=master))
    assert conf["spark.authenticate"] == "true"
    assert not [name for name in conf if "secret" in name]


@pytest.mark.one_machine
def test_the_settings_of_a_live_session_have_its_secret_nowhere(spark):
    conf = dict(spark.session.sparkContext.getConf().getAll())
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.redaction.regex"] == SENSITIVE
    java = spark.session.sparkContext._jvm.org.apache.spark.SparkEnv.get()
    secret = java.securityManager().getSecretKey()
    assert len(secret) >= 32
    assert secret not in str(conf)
    assert secret not in str(dict(os.environ))
    # What the page of the environment and an event log have.
    shown = [str(pair) for pair in (spark.session.sparkContext._jvm.java.lang.System.getProperties().toString(), conf)]
    assert not [text for text in shown if secret in text]
    assert re.search(SENSITIVE, "spark.authenticate.secret")


def test_on_a_cluster_connections_are_authenticated_and_encrypted_unless_the_user_decides_otherwise():
    conf = spark_conf(SparkSettings(master="spark://one:7077"))
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"
    assert conf["spark.hadoop.fs.defaultFS"] == "file:///"
    conf = spark_conf(SparkSettings(master="spark://one:7077", conf={"spark.authenticate": "false"}))
    assert conf["spark.authenticate"] == "false"
    assert "spark.network.crypto.enabled" not in conf, "Spark refuses it without authentication"


def test_a_local_spark_is_reachable_from_this_machine_alone():
    conf = spark_conf(SparkSettings())
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
