"""A login for the schema registry is in no error, however it is given and whatever fails."""

import base64
import http.server
import json
import threading
import traceback
from collections.abc import Iterator

import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.message_decoder import MessageDecoder
from keyfold.sinks.encoding import encoder

PLANTED = "planted-word"
PASSWORDS = [PLANTED, "planted%2Dword", "planted-%40word", "planted-%2Fword"]
FRAMED = b"\0\0\0\0\x01x"


@pytest.fixture(scope="module")
def refusing() -> Iterator[int]:
    """A registry that refuses each login, and repeats it. Its port."""

    class Refuses(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            login = base64.b64decode((self.headers["Authorization"] or "").rpartition(" ")[2])
            body = json.dumps({"error_code": 40101, "message": f"refused: {login.decode()}"}).encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def settings(url: str, **more: str) -> KafkaSettings:
    conf = {"url": url, "max.retries": "0"} | more
    text = " ".join(f"schema.registry.{name}={value}" for name, value in conf.items())
    return KafkaSettings.from_environment({"KEYFOLD_KAFKA_BOOTSTRAP": "127.0.0.1:1", "KEYFOLD_KAFKA_CONF": text})


def said(made: KafkaSettings) -> str:
    """What the source and the sink say, with their tracebacks."""
    texts = []
    for use in (
        lambda: list(MessageDecoder(made, 99).decode([FRAMED])),
        lambda: encoder(made, "avro", "t", "rows", {}),
        lambda: encoder(made, "json-schema", "t", "rows", {}),
    ):
        with pytest.raises((OSError, KeyfoldError)) as told:
            use()
        texts += traceback.format_exception(told.value)
        texts.append(repr(made))
    return "".join(texts)


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("is_answered", [True, False])
def test_the_login_in_an_address_is_never_shown(refusing: int, password: str, is_answered: bool):
    text = said(settings(f"http://ann:{password}@127.0.0.1:{refusing if is_answered else 9}/sub"))
    assert "the schema registry at http://127.0.0.1:" in text
    assert ("refused: " in text) is is_answered
    assert "planted" not in text


@pytest.mark.parametrize("is_answered", [True, False])
def test_the_login_beside_an_address_is_never_shown(refusing: int, is_answered: bool):
    url = f"http://127.0.0.1:{refusing if is_answered else 9}"
    text = said(settings(url, **{"basic.auth.user.info": f"ann:{PLANTED}"}))
    assert f"the schema registry at {url}" in text
    assert "planted" not in text


@pytest.mark.parametrize(
    "url",
    [
        "http://ann:planted/word@127.0.0.1:9",
        "http://ann:planted@word@127.0.0.1:9",
        "http://ann:planted#word@127.0.0.1:9",
        "ftp://ann:planted@127.0.0.1",
        "http://127.0.0.1:9?token=planted",
        "http://127.0.0.1:9,ann:planted@127.0.0.1",
        "http://ann:planted@127.0.0.1:999999",
    ],
)
def test_an_address_that_is_none_is_refused_without_repeating_it(url: str):
    with pytest.raises(KeyfoldError, match=r"schema\.registry\.url must be https://HOST:PORT") as told:
        settings(url)
    assert "planted" not in str(told.value)


def test_settings_that_the_client_refuses_are_told_without_their_values():
    made = settings("http://127.0.0.1:9", **{"bearer.auth.token": PLANTED, "nonsense": PLANTED})
    with pytest.raises(KeyfoldError, match="client refuses its settings") as told:
        MessageDecoder(made, 99)
    assert "planted" not in "".join(traceback.format_exception(told.value))


def test_settings_of_a_registry_need_its_address():
    with pytest.raises(KeyfoldError, match=r"without schema.registry.url: add its address"):
        KafkaSettings.from_environment(
            {"KEYFOLD_KAFKA_BOOTSTRAP": "a:1", "KEYFOLD_KAFKA_CONF": "schema.registry.basic.auth.user.info=ann:planted"}
        )
    made = settings("https://r", **{"basic.auth.user.info": "ann:planted"})
    assert made.registry["basic.auth.user.info"] == "ann:planted"
    assert not [name for name in made.client() if name.startswith("schema")]
    assert made.without_secrets("refused ann:planted, and planted") == "refused (hidden), and (hidden)"
