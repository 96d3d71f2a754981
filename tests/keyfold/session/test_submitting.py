"""What is rendered for spark-submit for each target; `tests/test_on_a_cluster.py` runs it."""

import stat

import pytest

from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.submitting import submit_command

PROGRAM = "print('whatever is to run')\n"
HOST = {"spark.driver.host": "10.0.0.1"}
STANDALONE = SparkSettings(master="spark://one:7077", conf=HOST | {"spark.authenticate.secret": "planted"})
KUBERNETES = SparkSettings(
    master="k8s://https://api:6443",
    conf=HOST
    | {
        "spark.kubernetes.container.image": "keyfold:1",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.home.mount.path": "/mnt/keyfold",
        "spark.hadoop.fs.s3a.secret.key": "planted",
    },
)
YARN = SparkSettings(
    master="yarn", conf=HOST | {"spark.yarn.stagingDir": "hdfs://n:8020/tmp", "spark.x.token": "planted"}
)


@pytest.mark.parametrize("settings", [STANDALONE, KUBERNETES, YARN], ids=lambda settings: settings.master)
def test_the_command_has_target_program_and_arguments_and_the_file_has_the_settings(settings, tmp_path, monkeypatch):
    (tmp_path / "yarn-site.xml").touch()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    command = submit_command(settings, PROGRAM, ["run", "ride_summaries", "--home", "/mnt/keyfold/home"], tmp_path)
    assert command[0].endswith("/bin/spark-submit")
    given = dict(zip(command[1:9:2], command[2:10:2], strict=True))
    file = tmp_path / "spark.properties"
    assert given == {
        "--master": settings.master,
        "--deploy-mode": "client",
        "--name": "keyfold",
        "--properties-file": str(file),
    }
    assert command[9:] == [
        "--load-spark-defaults",
        str(tmp_path / "run_keyfold.py"),
        "run",
        "ride_summaries",
        "--home",
        "/mnt/keyfold/home",
    ]
    assert (tmp_path / "run_keyfold.py").read_text() == PROGRAM
    assert "planted" not in " ".join(command)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert "planted" in written.values()
    assert written["spark.driver.host"] == "10.0.0.1"
    assert written["spark.authenticate"] == "true"
    assert "io.delta" in written["spark.jars.packages"]


def test_a_target_that_lacks_something_is_refused_before_anything_is_submitted(tmp_path):
    with pytest.raises(KeyfoldError, match=r"spark.driver.host"):
        submit_command(SparkSettings(master="spark://one:7077"), PROGRAM, ["run", "rides"], tmp_path)


def test_a_spark_home_without_spark_submit_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(KeyfoldError, match=r"SPARK_HOME is .*, which has no bin/spark-submit: unset it"):
        submit_command(SparkSettings(), PROGRAM, [], tmp_path)
