"""What is wrong with a NameNode, or with what says where it is, is told at once and in words."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.storage import hdfs_client
from keyfold.storage.reachable import check_conditions, check_reachable
from keyfold.storage.remote_path import NotAnsweringError
from tests.ports import free_port


def settings_in(folder, **values):
    """An environment whose HADOOP_CONF_DIR says these, and nothing else; `__` stands for a dot, `_` for a dash."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in values.items()}
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in named.items()
    )
    (folder / "hdfs-site.xml").write_text(f"<configuration>{properties}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


def test_a_name_node_that_answers_is_well_and_a_home_there_needs_no_trial(hdfs):
    check_reachable(f"{hdfs.url}/not/yet/there")
    check_conditions(hdfs.new_folder())


def test_a_name_node_that_is_not_there_is_told_at_once_with_its_address():
    port = free_port()
    with pytest.raises(
        NotAnsweringError, match=rf"hdfs://127.0.0.1:{port}/home: no NameNode answers: 127.0.0.1:{port} \("
    ):
        check_reachable(f"hdfs://127.0.0.1:{port}/home", {})


def test_a_name_service_wants_the_settings_that_say_where_it_is(tmp_path):
    with pytest.raises(KeyfoldError, match=r"names has no port, and no hdfs-site\.xml of HADOOP_CONF_DIR says"):
        check_reachable("hdfs://names/home", {})
    first, second = free_port(), free_port()
    environment = settings_in(
        tmp_path,
        dfs__ha__namenodes__names="one, two",
        dfs__namenode__rpc_address__names__one=f"127.0.0.1:{first}",
        dfs__namenode__rpc_address__names__two=f"127.0.0.1:{second}",
    )
    with pytest.raises(NotAnsweringError, match=rf"answers: 127.0.0.1:{first} \(.*; 127.0.0.1:{second} \("):
        check_reachable("hdfs://names/home", environment)


def test_a_name_node_that_closes_files_too_early_is_refused(tmp_path):
    environment = settings_in(tmp_path, dfs__namenode__file__close__num_committed_allowed="1")
    with pytest.raises(KeyfoldError, match=r"num-committed-allowed=1.*set it to 0"):
        check_reachable("hdfs://127.0.0.1:9/home", environment)


def test_who_may_not_look_is_told_who_he_is(hdfs, monkeypatch):
    folder = hdfs.new_folder()
    folder.mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    hdfs_client._client.cache_clear()
    try:
        with pytest.raises(KeyfoldError, match=r"Permission denied: user=somebody.*HADOOP_USER_NAME"):
            check_reachable(folder / "home")
    finally:
        # The next one asks by whoever he is then.
        hdfs_client._client.cache_clear()
