"""A schema registry as the source and the sink of Kafka use it: Confluent's client, whose errors have no login in them.

Source of the framing: Confluent's wire format, https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop.
"""

import re
from typing import TYPE_CHECKING, Literal

from keyfold.errors import Misconfigured, first_line
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.lazy_names import from_extra

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
else:
    Schema, SchemaRegistryClient, SchemaRegistryError = from_extra(
        "registry", "confluent_kafka.schema_registry", "Schema", "SchemaRegistryClient", "SchemaRegistryError"
    )

FRAME_BYTES = 5
"""Bytes before the content of a framed message: a zero byte, and the number of its schema in four bytes."""

_NUMBER = re.compile(r"\d+(\.\d+)?")
_MISSING = 404


class RefusedSchemaError(Exception):
    """The registry answered, and does not take a schema; the message says why."""


class SchemaRegistry:
    """A schema registry. Its methods raise `OSError` if it does not answer, or refuses access.

    Args:
        settings: settings of Kafka, with those of the registry.

    Raises:
        Misconfigured: Confluent's client refuses the settings, or is not installed.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        # The client wants numbers as numbers.
        conf = {name: float(value) if _NUMBER.fullmatch(value) else value for name, value in settings.registry.items()}
        try:
            self._client = SchemaRegistryClient.new_client(conf)
        except (OSError, TypeError, ValueError) as error:
            raise Misconfigured(
                f"the schema registry's client refuses its settings: {self._text(error)}; correct schema.registry.… in "
                "KEYFOLD_KAFKA_CONF"
            ) from None

    def schema(self, number: int) -> "Schema | None":
        """Return a schema by its number; None if the registry does not have it."""
        try:
            return self._client.get_schema(number)
        except Exception as error:
            return self._missing(error)

    def version(self, subject: str, version: "int | Literal['latest']") -> "Schema | None":
        """Return a version of a subject's schema; None if the registry does not have it."""
        try:
            return self._client.get_version(subject, version).schema
        except Exception as error:
            return self._missing(error)

    def register(self, subject: str, form: str, text: str) -> int:
        """Register a schema for a subject, and return its number.

        Raises:
            RefusedSchemaError: readers of the subject's earlier schema could not read it, or access is refused.
        """
        try:
            return self._client.register_schema(subject, Schema(text, form))
        except SchemaRegistryError as error:
            raise RefusedSchemaError(self._text(error)) from None
        except Exception as error:
            raise self._failed(error) from None

    def _missing(self, error: Exception) -> None:
        """Return nothing if the registry does not have what it was asked for; raise an error if it failed."""
        if not isinstance(error, SchemaRegistryError) or error.http_status_code != _MISSING:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> OSError:
        return OSError(f"the schema registry at {self._settings.registry_address} failed: {self._text(error)}")

    def _text(self, error: Exception) -> str:
        return self._settings.without_secrets(first_line(error))


def frame(number: int) -> bytes:
    """Return what a message of a schema begins with."""
    return b"\0" + number.to_bytes(4, "big")


def schema_number(message: bytes | None) -> int | None:
    """Return the number of the schema that a message names; None if it is not framed."""
    if message is None or len(message) < FRAME_BYTES or message[0]:
        return None
    return int.from_bytes(message[1:FRAME_BYTES], "big")
