"""Whether HDFS can be reached: told at once, since its client asks for three minutes before it gives up."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from keyfold.errors import KeyfoldError
from keyfold.storage.hdfs_path import HdfsPath
from keyfold.storage.remote_path import NotAnsweringError, StoreError

_WITHIN_SECONDS = 10.0
_UNREAD = "dfs.namenode.file.close.num-committed-allowed"


def check_name_node(place: HdfsPath, environment: Mapping[str, str] = os.environ) -> None:
    """See that a NameNode answers, and what lies at a place may be looked at.

    Raises:
        KeyfoldError: none answers, it refuses, or it is set to what Delta's library cannot read; says what to set.
    """
    settings = _settings(environment)
    if settings.get(_UNREAD, "0").strip() != "0":
        raise KeyfoldError(
            f"{place}: hdfs-site.xml has {_UNREAD}={settings[_UNREAD]}: files are closed before their last block is complete "
            "then, and the client that Delta's library has reads them as if they were empty; set it to 0 on the NameNode, as "
            "it is by default"
        )
    addresses = _addresses(place, settings)
    failed = [why for address in addresses if (why := _unreachable(address))]
    if len(failed) == len(addresses):
        raise NotAnsweringError(f"{place}: no NameNode answers: {'; '.join(failed)}; start it, or name another")
    try:
        place.exists()
    except StoreError as error:
        raise KeyfoldError(f"{error}. {place.what_reaches_it}") from None


def _addresses(place: HdfsPath, settings: Mapping[str, str]) -> list[str]:
    """Where its NameNodes are, HOST:PORT each."""
    named = urlsplit(str(place)).netloc
    if ":" in named:
        return [named]
    nodes = [one.strip() for one in settings.get(f"dfs.ha.namenodes.{named}", "").split(",") if one.strip()]
    found = [settings[key] for one in nodes if (key := f"dfs.namenode.rpc-address.{named}.{one}") in settings]
    if not found:
        raise KeyfoldError(
            f"{place}: {named} has no port, and no hdfs-site.xml of HADOOP_CONF_DIR says which NameNodes a name service of "
            "that name has; write hdfs://HOST:PORT/FOLDER, or set HADOOP_CONF_DIR to the folder that has it"
        )
    return found


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What Hadoop's own files say."""
    folder = environment.get("HADOOP_CONF_DIR")
    if not folder:
        return {}
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        # A file that is missing or damaged is Hadoop's own to tell of.
        with suppress(OSError, ElementTree.ParseError):
            root = ElementTree.parse(Path(folder) / name).getroot()  # noqa: S314 - the user's own settings
            found |= {one.findtext("name", ""): one.findtext("value", "") for one in root.iter("property")}
    return found


def _unreachable(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_WITHIN_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        return f"{address} ({error})"
