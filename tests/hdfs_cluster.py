"""A real HDFS for tests, on loopback: `python -m tests.hdfs_cluster` fetches its jars, `running_hdfs` runs a NameNode and a DataNode.

Its jars come by Maven, with the user's own mirrors and proxies, and are held to `hdfs_jars.sha256`. Without Maven, or
without a network, tests that need HDFS are skipped and say why.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from keyfold.storage.hdfs_path import HdfsPath
from tests.maven_jars import MavenJars
from tests.ports import free_port

VERSION = "3.5.0"
JARS = MavenJars(
    who="HDFS",
    what=f"HDFS {VERSION} (104 MB when none is cached)",
    folder=Path(sys.prefix) / f"hdfs-{VERSION}",
    lock=Path(__file__).with_name("hdfs_jars.sha256"),
    dependency=("org.apache.hadoop", "hadoop-client-minicluster", VERSION),
)

_SECONDS = 90
_NODES = {
    "NameNode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "DataNode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}


def why_not() -> str:
    """Why there is no HDFS here; empty where there is one."""
    return JARS.why_not("python -m tests.hdfs_cluster")


@dataclass
class Hdfs:
    """A NameNode and a DataNode that run.

    Attributes:
        folder: of their settings and data.
        port, page: of the NameNode, and of its page.
        processes: by their names.
    """

    folder: Path
    port: int
    page: int
    processes: "dict[str, subprocess.Popen[bytes]]"

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def new_folder(self) -> HdfsPath:
        """A folder of a name that none has; it is not made."""
        return HdfsPath(f"{self.url}/f-{uuid.uuid4().hex[:12]}")

    def stop(self, node: str) -> None:
        """Kill a node, as a power cut does."""
        self.processes[node].kill()
        self.processes[node].wait()

    def start(self, node: str) -> None:
        """Start a node again, at the same address."""
        self.processes[node] = _start(self.folder, node)
        _wait(self)


@contextmanager
def running_hdfs(folder: Path) -> Iterator[Hdfs]:
    """Start HDFS below a folder, and stop it."""
    ports = {name: free_port() for name in ("name", "name page", "data", "data page", "data calls")}
    _write_settings(folder / "conf", "core-site.xml", {"fs.defaultFS": f"hdfs://127.0.0.1:{ports['name']}"})
    _write_settings(folder / "conf", "hdfs-site.xml", _settings(folder, ports))
    with (folder / "format.log").open("wb") as log:
        format_it = [*_java(folder), _NODES["NameNode"], "-format", "-nonInteractive"]
        subprocess.run(format_it, check=True, stdout=log, stderr=log)
    with ExitStack() as running:
        hdfs = Hdfs(folder, ports["name"], ports["name page"], {})
        for name in _NODES:
            hdfs.processes[name] = _start(folder, name)
            running.callback(lambda name=name: hdfs.stop(name))
        _wait(hdfs)
        yield hdfs


def _wait(hdfs: Hdfs) -> None:
    until = time.monotonic() + _SECONDS
    # The NameNode answers before a DataNode has come to it, and before it takes writes.
    while not _takes_writes(hdfs.page):
        logs = "".join((hdfs.folder / f"{name}.log").read_text()[-1000:] for name in _NODES)
        assert all(node.poll() is None for node in hdfs.processes.values()), f"a node has ended: {logs}"
        assert time.monotonic() < until, f"HDFS does not start: {logs}"
        time.sleep(0.1)


def _takes_writes(page: int) -> bool:
    query = f"http://127.0.0.1:{page}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        with urllib.request.urlopen(query, timeout=10) as answer:
            found = json.load(answer)["beans"][0]
    except (OSError, IndexError):
        return False
    return found["NumLiveDataNodes"] > 0 and found["FSState"] == "Operational"


def _start(folder: Path, name: str) -> "subprocess.Popen[bytes]":
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen([*_java(folder), _NODES[name]], stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _java(folder: Path) -> tuple[str, ...]:
    small = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return ("java", *small, "-cp", os.pathsep.join((str(folder / "conf"), f"{JARS.folder}/*")))


def _settings(folder: Path, ports: Mapping[str, int]) -> dict[str, str]:
    return {
        "dfs.replication": "1",
        "dfs.namenode.name.dir": f"file://{folder}/name",
        "dfs.datanode.data.dir": f"file://{folder}/data",
        "dfs.namenode.http-address": f"127.0.0.1:{ports['name page']}",
        "dfs.datanode.address": f"127.0.0.1:{ports['data']}",
        "dfs.datanode.http.address": f"127.0.0.1:{ports['data page']}",
        "dfs.datanode.ipc.address": f"127.0.0.1:{ports['data calls']}",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        # Else it waits half a minute after each start.
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.edits.noeditlogchannelflush": "true",
    }


def _write_settings(folder: Path, name: str, settings: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    properties = "".join(
        f"<property><name>{one}</name><value>{value}</value></property>" for one, value in settings.items()
    )
    (folder / name).write_text(f"<configuration>{properties}</configuration>", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(JARS.fetch())
