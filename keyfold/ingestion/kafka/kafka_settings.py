"""Kafka's settings, from environment variables of the process that runs ingest and of Spark's workers.

    KEYFOLD_KAFKA_BOOTSTRAP   host:port, several separated by commas
    KEYFOLD_KAFKA_CONF        settings of TLS and SASL by librdkafka's names, and of a schema registry after `schema.registry.`,
                              `name=value` separated by blanks, or @/path/of/a/private/file with them
    KEYFOLD_KAFKA_TOPICS      streams that are read from Kafka, `stream=topic` separated by blanks

Passwords and keys are in no plan, record, message or log: a worker reads them from its own environment when it connects, and
they are removed from errors of the client library.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from keyfold.errors import Misconfigured
from keyfold.project import project_if_any
from keyfold.secret_settings import is_secret, parse_conf, without_secrets

BOOTSTRAP_VARIABLE = "KEYFOLD_KAFKA_BOOTSTRAP"
CONF_VARIABLE = "KEYFOLD_KAFKA_CONF"
TOPICS_VARIABLE = "KEYFOLD_KAFKA_TOPICS"

PREFIX = "kafka://"
"""The prefix that distinguishes a topic from a folder."""

_ADDRESSES = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}(?:,(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5})*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_REGISTRY = "schema.registry."
_REGISTRY_URL = f"{_REGISTRY}url"
_LOGIN = re.compile(r"(?<=://)[^/\s,]*@")
_REGISTRY_ADDRESS = re.compile(
    r"(https?://([^/\s,@?#]*@)?([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?|mock://[\w.-]*)(/[^\s,@?#]*)?"
)
_OWN_SETTINGS = [
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "isolation.level",
    "transactional.id",
]
"""Settings that exactly-once delivery depends on."""


@dataclass(frozen=True)
class KafkaSettings:
    """Settings of the connection to a Kafka cluster.

    Attributes:
        bootstrap: addresses of brokers.
        conf: other settings by librdkafka's names, and of a schema registry; never shown.
    """

    bootstrap: str
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "KafkaSettings":
        """Read the settings from the environment.

        Raises:
            KeyfoldError: a variable is missing or invalid. The message contains no value of a setting.
        """
        bootstrap = environment.get(BOOTSTRAP_VARIABLE, "").replace(" ", "")
        if not bootstrap:
            raise Misconfigured(
                f"{BOOTSTRAP_VARIABLE} is not set: give Kafka's address, as in broker.example.org:9092 (several separated by "
                "commas)"
            )
        if not _ADDRESSES.fullmatch(bootstrap):
            raise Misconfigured(
                f"{BOOTSTRAP_VARIABLE} must be host:port, such as broker.example.org:9092, several separated by commas"
            )
        conf = _conf(environment.get(CONF_VARIABLE, "").strip())
        if "bootstrap.servers" in conf:
            raise Misconfigured(f"{CONF_VARIABLE}: bootstrap.servers is set by its own variable, {BOOTSTRAP_VARIABLE}")
        if own := [name for name in _OWN_SETTINGS if name in conf]:
            raise Misconfigured(
                f"{CONF_VARIABLE}: {own[0]} is set by Keyfold, since exactly-once delivery depends on it; remove it"
            )
        if any(name.startswith(_REGISTRY) for name in conf) and not conf.get(_REGISTRY_URL):
            raise Misconfigured(
                f"{CONF_VARIABLE} has settings of a schema registry without {_REGISTRY_URL}: add its address"
            )
        addresses = conf.get(_REGISTRY_URL)
        if addresses and not all(map(_REGISTRY_ADDRESS.fullmatch, addresses.split(","))):
            raise Misconfigured(
                f"{CONF_VARIABLE}: {_REGISTRY_URL} must be https://HOST:PORT, several separated by commas; give a login as "
                f"{_REGISTRY}basic.auth.user.info=USER:PASSWORD"
            )
        return cls(bootstrap, conf)

    @classmethod
    def of_worker(
        cls, bootstrap: str, names: Sequence[str], environment: Mapping[str, str] = os.environ
    ) -> "KafkaSettings":
        """Return the settings for a worker: addresses and names of settings from the driver, values from its own environment.

        Raises:
            KeyfoldError: the worker's environment has other settings than the driver's.
        """
        settings = cls.from_environment({**environment, BOOTSTRAP_VARIABLE: bootstrap})
        if set(settings.conf) != set(names):
            raise Misconfigured(
                f"Spark's workers have other settings of Kafka in {CONF_VARIABLE} than the process that started the run "
                f"({', '.join(sorted(set(settings.conf) ^ set(names)))}): set it where Spark is started"
            )
        return settings

    def client(self, **more: Any) -> dict[str, Any]:
        """Return the full configuration of a client, with secrets: pass it to nothing else."""
        # No log on stderr: errors are raised, and secrets removed by `without_secrets`.
        return {"log_level": 0, "socket.keepalive.enable": True, "client.id": "keyfold"} | {
            **{name: value for name, value in self.conf.items() if not name.startswith(_REGISTRY)},
            "bootstrap.servers": self.bootstrap,
            **more,
        }

    @property
    def registry(self) -> dict[str, str]:
        """The settings of a schema registry, with secrets; empty if there is none."""
        own = {name: value for name, value in self.conf.items() if name.startswith(_REGISTRY)}
        return {name.removeprefix(_REGISTRY): value for name, value in own.items()}

    @property
    def registry_address(self) -> str:
        """The address of the schema registry, without the login that it may have."""
        return _LOGIN.sub("", self.conf.get(_REGISTRY_URL, "").partition("?")[0])

    def without_secrets(self, text: object) -> str:
        """Return a client's message without the values of secret settings."""
        secrets = [value for name, value in self.conf.items() if _is_secret(name, value)]
        # Of a login `user:password`, each part too: libraries quote them apart, and decoded.
        logins = [*secrets, *(login[0].strip("@") for login in _LOGIN.finditer(self.conf.get(_REGISTRY_URL, "")))]
        passwords = [login.partition(":")[2] for login in logins if ":" in login]
        texts = [*secrets, *logins, *passwords, *map(unquote, passwords)]
        return without_secrets(str(text), {f"{at}.secret": value for at, value in enumerate(texts)})


def kafka_topics(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the topics of KEYFOLD_KAFKA_TOPICS, by stream. Other streams are read from files.

    Raises:
        KeyfoldError: an entry is invalid, there is no such stream, a name is not valid for a topic, or two streams have one.
    """
    topics = values_by_stream(TOPICS_VARIABLE, environment)
    for stream, topic in topics.items():
        check_topic(topic, f"{TOPICS_VARIABLE}: the topic of {stream}")
    check_different(TOPICS_VARIABLE, topics)
    return topics


def values_by_stream(variable: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Parse the entries `stream=value` of a variable, separated by blanks.

    Raises:
        Misconfigured: an entry is invalid, or there is no such stream.
    """
    values = parse_conf(environment.get(variable, ""), variable)
    # A code location without a project has no list of its streams while its definitions load.
    project = project_if_any()
    for stream in values:
        if project is not None and stream not in project.streams:
            raise Misconfigured(
                f"{variable} names {stream}, but there is no such stream; streams: {', '.join(project.streams)}"
            )
    return values


def check_different(variable: str, sources: Mapping[str, object]) -> None:
    """Check that no two streams have the same source.

    Raises:
        Misconfigured: two have.
    """
    streams: dict[object, str] = {}
    for stream, source in sources.items():
        if (other := streams.setdefault(source, stream)) != stream:
            raise Misconfigured(
                f"{variable} gives {other} and {stream} the same source, {source}, and each would read the rows of both: give "
                "each kind of event a folder or topic of its own, or declare one stream with the columns of all, of which each "
                "job takes its rows"
            )


def check_topic(topic: str, label: str = "the topic") -> str:
    """Return a topic's name after checking it.

    Raises:
        KeyfoldError: the name is not valid for a topic.
    """
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise Misconfigured(f"{label} is {topic!r}: names of topics are letters, digits, '.', '_' and '-', 249 at most")
    return topic


def _conf(text: str) -> dict[str, str]:
    if not text.startswith("@"):
        return parse_conf(text, CONF_VARIABLE)
    file = Path(text[1:]).expanduser()
    try:
        mode = file.stat().st_mode
        content = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Misconfigured(f"{CONF_VARIABLE} names {file}, which cannot be read: {why}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise Misconfigured(f"{CONF_VARIABLE} names {file}, which other users may read or write: `chmod 600 {file}`")
    lines = [line for line in content.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return parse_conf("\n".join(lines), CONF_VARIABLE)


def _is_secret(name: str, value: str) -> bool:
    # Keys and certificates may be given as PEM text.
    return is_secret(name, value) or name.endswith((".pem", ".jaas.config", "oauthbearer.config", "user.info"))
