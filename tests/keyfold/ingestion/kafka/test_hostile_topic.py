"""A topic of hostile messages, read by the command in a process of its own on each runner, which ends well and accounts for each."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest

from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from tests.kafka_broker import Broker
from tests.keyfold.ingestion.kafka.hostile import AVRO, HOSTILE, KEYS, OTHERS

SCHEMAS = {
    number: {"schema": text, "schemaType": form, "references": references}
    for number, (text, form, references) in enumerate(
        [
            *((json.dumps(schema), "AVRO", []) for schema in AVRO.values()),
            *(
                (
                    schema.schema_str,
                    schema.schema_type,
                    [
                        {"name": one.name, "subject": one.subject, "version": one.version}
                        for one in schema.references or []
                    ],
                )
                for schema in OTHERS.values()
            ),
        ],
        1,
    )
}


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def registry(asked: list[str]) -> Iterator[str]:
    """The address of a registry."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path.partition("?")[0])
            number = asked[-1].rpartition("/")[2]
            known = SCHEMAS.get(int(number)) if "/schemas/ids/" in asked[-1] else None
            body = json.dumps(known or {"error_code": 40403, "message": "not found"}).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("runner", ["local", "spark"])
def test_a_topic_of_hostile_messages_ends_in_tables_on_each_runner(
    broker: Broker, registry: str, asked: list[str], tmp_path: Path, runner: str
):
    topic, lakehouse = broker.topic(), Lakehouse(tmp_path)
    frames = [b"\0" + number.to_bytes(4, "big") for number in (*SCHEMAS, 900, 901)]
    values = [frame + content for frame in frames for content in HOSTILE]
    producer, good = broker.producer(), json.dumps({"t": 1})
    for value in values:
        producer.produce(topic, value)
        producer.poll(0)
    # With a JSON Schema, and as they are.
    for key in [frames[len(AVRO)] + key for key in KEYS] + KEYS:
        producer.produce(topic, good, key=key)
    assert producer.flush(60) == 0
    produced = len(values) + 2 * len(KEYS)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("KEYFOLD_")},
        "KEYFOLD_RUNNER": runner,
        "KEYFOLD_KAFKA_BOOTSTRAP": broker.bootstrap,
        "KEYFOLD_KAFKA_CONF": f"schema.registry.url={registry}",
        "PYTHONPATH": str(Path(__file__).parents[4]),
    }
    command = [sys.executable, "-m", "tests.keyfold.ingestion.kafka.hostile", topic, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["rows_read"] == produced == counts["accepted"] + counts["quarantined"]
    refused = scan_table(lakehouse.quarantine("hostile")).collect()
    assert refused.height == counts["quarantined"]
    assert refused["reason"].null_count() == 0
    # Of the keys: a text that does not end, half of a pair, and what is not UTF-8.
    assert refused.filter(pl.col("reason").str.starts_with("kafka_key"))["reason"].n_unique() >= 3
    assert scan_table(lakehouse.events("hostile")).collect().height == counts["accepted"]
    assert max(map(asked.count, set(asked))) <= 2  # by each of two workers
