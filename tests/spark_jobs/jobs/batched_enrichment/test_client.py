"""The client against a service that answers by a script: tries, pauses, keys, and answers of every shape."""

import asyncio
import json
import logging
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from spark_jobs.jobs.batched_enrichment.client import EnrichmentClient, read_retry_after
from spark_jobs.jobs.batched_enrichment.job import BatchedEnrichmentParameters
from spark_jobs.jobs.batched_enrichment.protocol import Batch, Outcome
from spark_jobs.jobs.batched_enrichment.services import Service
from tests.spark_jobs.jobs.batched_enrichment.scripted_service import Answer, scripted_service

DOWN = Answer(503, {"error": "down"})


def batch(count=3, scope="test/0"):
    numbers = [json.dumps({"n": number}) for number in range(count)]
    return Batch(scope, pl.Series(numbers), pl.Series(numbers))


def results(*statuses):
    made = [
        {"status": status, "enrichment": place} if status == 200 else {"status": status, "error": f"no {place}"}
        for place, status in enumerate(statuses)
    ]
    return Answer(body={"results": made})


def ask(url, events=None, pauses=None, token_variable=None, **settings):
    """Call with full pauses that are noted and not slept."""
    service = Service(url=url, token_variable=token_variable)
    pauses = [] if pauses is None else pauses
    settings = {"timeout": 5.0, **settings}
    return asyncio.run(call(service, parameters(**settings), events or batch(), pauses, lambda: 1.0))


def parameters(**given):
    """Parameters of the job, with times in seconds."""
    return BatchedEnrichmentParameters.model_validate(
        {name: timedelta(seconds=value) if isinstance(value, float) else value for name, value in given.items()}
    )


async def call(service, given, events, pauses, chance):
    async def sleep(seconds):
        pauses.append(seconds)

    async with EnrichmentClient(service, given, sleep=sleep, chance=chance) as client:
        return await client(events)


def test_each_event_gets_its_enrichment_as_json_text():
    with scripted_service(Answer()) as service:
        assert ask(service.url) == [Outcome(f'{{"n":{number}}}', 1, 200) for number in range(3)]
    assert service.events == [[{"n": 0}, {"n": 1}, {"n": 2}]]
    assert service.headers[0]["Content-Type"] == "application/json"


def test_the_key_is_one_of_scope_ids_and_events_in_their_order():
    keys = {
        one.idempotency_key
        for one in (batch(3), batch(3), batch(2), batch(3, "test/1"), batch(3).again([0, 1, 2]), batch(3).again([1]))
    }
    assert len(keys) == 5
    assert all(len(key) == 64 for key in keys)
    turned = Batch("test/0", batch(3).ids.reverse(), batch(3).events.reverse())
    assert turned.idempotency_key not in keys
    # By hand: the sha256sum of these seven lines (scope, ids, events), the last without its end.
    assert batch(3).idempotency_key == "cb349390b6a46fb8f84806cb39aa895b7254cee31c2aaa54ab2d0a895f18374d"


def test_the_key_is_another_where_a_body_differs_under_the_same_id():
    ids = pl.Series(['{"n":0}', '{"n":1}'])
    before = Batch("test/0", ids, pl.Series(['{"n":0,"fare":1.5}', '{"n":1,"fare":2.5}']))
    corrected = Batch("test/0", ids, pl.Series(['{"n":0,"fare":1.5}', '{"n":1,"fare":9.5}']))
    assert before.idempotency_key != corrected.idempotency_key
    assert before.again([1]).idempotency_key != corrected.again([1]).idempotency_key
    assert before.again([0]).idempotency_key == corrected.again([0]).idempotency_key


def test_a_call_that_fails_as_a_whole_comes_again_with_the_same_key():
    with scripted_service(DOWN, Answer(429), Answer(408), Answer()) as service:
        assert [outcome.attempts for outcome in ask(service.url)] == [4, 4, 4]
    assert len(set(service.keys)) == 1
    assert len(service.keys) == 4


def test_events_that_failed_for_now_come_again_alone_with_a_key_of_their_own():
    with scripted_service(results(503, 200, 429, 422), results(500, 200), results(200)) as service:
        outcomes = ask(service.url, batch(4))
    assert service.events == [[{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}], [{"n": 0}, {"n": 2}], [{"n": 0}]]
    assert outcomes == [
        Outcome("0", 3, 200),
        Outcome("1", 1, 200),
        Outcome("1", 2, 200),
        Outcome(None, 1, 422, "no 3"),
    ]
    assert len(set(service.keys)) == 3


def test_events_that_fail_again_together_come_with_another_key_and_after_a_failed_call_with_the_same():
    with scripted_service(results(503), results(503), DOWN, results(200)) as service:
        ask(service.url, batch(1))
    first, second, third, fourth = service.keys
    assert len({first, second, third}) == 3
    assert third == fourth
    with scripted_service(results(503), results(503), DOWN, results(200)) as replayed:
        ask(replayed.url, batch(1))
    assert replayed.keys == service.keys


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 302])
def test_what_will_not_get_better_is_not_tried_again(status):
    with scripted_service(Answer(status, b"no way")) as service:
        assert ask(service.url) == [Outcome(None, 1, status, "no way")] * 3
    assert len(service.keys) == 1


def test_tries_are_bounded_and_pauses_grow_up_to_their_bound():
    pauses = []
    with scripted_service(DOWN) as service:
        outcomes = ask(service.url, pauses=pauses, max_attempts=10)
    assert {(outcome.attempts, outcome.status) for outcome in outcomes} == {(10, 503)}
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30]
    assert len(service.keys) == 10


def test_the_pause_is_any_share_of_its_bound():
    pauses = []
    with scripted_service(DOWN) as service:
        named = Service(url=service.url)
        asyncio.run(call(named, parameters(), batch(), pauses, iter([0.5, 0, 1, 0.25]).__next__))
    assert pauses == [0.1, 0, 0.8, 0.4]


@pytest.mark.parametrize(
    ("asked", "pause"), [("3", 3.2), ("900", 30), ("soon", 0.2), ("-4", 0.2), ("", 0.2), ("9" * 400, 0.2)]
)
def test_retry_after_is_added_to_the_pause_and_bounded(asked, pause):
    pauses = []
    with scripted_service(Answer(429, headers={"Retry-After": asked}), Answer()) as service:
        ask(service.url, pauses=pauses)
    assert pauses == [pause]


def test_retry_after_is_heard_where_only_some_events_failed():
    pauses = []
    partly = results(200, 200, 503)
    partly.headers = {"Retry-After": "7"}
    with scripted_service(partly, results(200)) as service:
        ask(service.url, pauses=pauses)
    assert pauses == [7.2]


def test_retry_after_may_be_a_date():
    assert 50 < read_retry_after(format_datetime(datetime.now(UTC) + timedelta(minutes=1), usegmt=True)) <= 60
    assert read_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert read_retry_after(None) == 0


def test_no_connection_is_tried_again_and_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        outcomes = ask(f"http://127.0.0.1:{taken.getsockname()[1]}/", max_attempts=3)
    assert {(outcome.enrichment, outcome.attempts, outcome.status) for outcome in outcomes} == {(None, 3, None)}
    assert "ConnectError" in (outcomes[0].answer or "")


def test_no_answer_in_time_is_tried_again_with_the_same_key():
    with scripted_service(Answer(delay=1.0), Answer()) as service:
        outcomes = ask(service.url, timeout=0.2)
    assert [outcome.attempts for outcome in outcomes] == [2, 2, 2]
    assert len(set(service.keys)) == 1


def test_an_answer_that_drips_does_not_hold_the_call():
    with scripted_service(Answer(drip=0.05)) as service:
        outcomes = ask(service.url, timeout=0.3, max_attempts=1)
    assert outcomes == [Outcome(None, 1, None, "no answer within 0.3 s")] * 3


def test_an_answer_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("spark_jobs.jobs.batched_enrichment.client.MAX_ANSWER_BYTES", 1000)
    with scripted_service(Answer(body=b"[" + b"0," * 5000 + b"0]")) as service:
        (outcome,) = set(ask(service.url, max_attempts=1))
    assert "more than 1,000 bytes" in (outcome.answer or "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>welcome</html>", "welcome"),
        (b"", "malformed answer"),
        (b"\xff\xfe", "malformed answer"),
        (b"[" * 100_000, "malformed answer"),
        (b'{"results": 3}', "not an object with a list of results"),
        (b'{"results": [{"status": 200, "enrichment": 1}]}', "1 results for 3 events"),
        (b'{"results": [NaN, 1, 2]}', "NaN is not JSON"),
        (b'{"results": [{"status": 200, "enrichment": 1e999}, 1, 2]}', "malformed answer"),
        (b'{"results": [1, 2, 3]}', "malformed result"),
        (b'{"results": [{"status": 200}, {"status": 200}, {"status": 200}]}', "no enrichment"),
        (b'{"results": [{"status": "200"}, {"status": true}, {"status": 7}]}', "malformed result"),
    ],
)
def test_an_answer_of_another_shape_is_a_failure_with_its_reason(body, reason):
    with scripted_service(Answer(body=body)) as service:
        outcomes = ask(service.url, max_attempts=2)
    assert all(outcome.enrichment is None and outcome.attempts == 2 for outcome in outcomes)
    assert reason in " ".join(outcome.answer or "" for outcome in outcomes)
    assert all(len(outcome.answer or "") <= 1000 for outcome in outcomes)


def test_one_malformed_result_fails_its_event_alone():
    answer = {"results": [{"status": 200, "enrichment": None}, {"status": 200}, {"status": 200, "enrichment": "é"}]}
    with scripted_service(Answer(body=answer), results(200)) as service:
        outcomes = ask(service.url)
    assert [outcome.enrichment for outcome in outcomes] == ["null", "0", '"é"']


def test_text_that_is_no_utf8_is_kept_as_valid_json():
    body = b'{"results": [{"status": 200, "enrichment": "\\ud800"}, {"status": 422, "error": "\\ud800"}]}'
    with scripted_service(Answer(body=body)) as service:
        good, bad = ask(service.url, batch(2))
    assert (good.enrichment, bad.answer) == ('"\\ud800"', "\\ud800")
    pl.Series([good.enrichment, bad.answer])


def test_the_token_goes_into_the_header_and_nowhere_else(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("GEO_TOKEN", " a-secret-token\n")
    echoes = Answer(body={"results": [{"status": 422, "error": "Bearer a-secret-token is out of date"}]})
    with scripted_service(Answer(503, b"a-secret-token"), echoes) as service:
        (outcome,) = ask(service.url, batch(1), token_variable="GEO_TOKEN")  # noqa: S106 - a name
    assert service.headers[0]["Authorization"] == "Bearer a-secret-token"
    assert outcome.answer == "Bearer [token] is out of date"
    assert "a-secret-token" not in caplog.text
    assert caplog.records


def test_a_token_goes_to_the_service_that_names_its_variable_and_to_no_other(monkeypatch):
    monkeypatch.setenv("GEO_TOKEN", "a-secret-token")
    with scripted_service(Answer()) as service:
        ask(service.url)
    assert "Authorization" not in service.headers[0]


def test_a_token_that_is_not_there_or_that_no_header_takes_is_a_wrong_setting_and_is_not_repeated(monkeypatch):
    monkeypatch.delenv("GEO_TOKEN", raising=False)
    with pytest.raises(
        KeyfoldError, match=r"GEO_TOKEN, with the token .* is not set in the environment of Spark's workers"
    ):
        ask("http://127.0.0.1:1/", token_variable="GEO_TOKEN")  # noqa: S106 - a name, not a token
    monkeypatch.setenv("GEO_TOKEN", "half\nhalf")
    with pytest.raises(KeyfoldError, match="GEO_TOKEN contains characters") as raised:
        ask("http://127.0.0.1:1/", token_variable="GEO_TOKEN")  # noqa: S106
    assert "half" not in str(raised.value)


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with scripted_service(Answer()) as service:
        assert ask(service.url, max_attempts=1)[0].enrichment == '{"n":0}'


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_token_stays(status, monkeypatch):
    monkeypatch.setenv("GEO_TOKEN", "a-secret-token")
    with (
        scripted_service(Answer()) as other,
        scripted_service(Answer(status, b"moved", headers={"Location": other.url})) as service,
    ):
        (outcome,) = set(ask(service.url, token_variable="GEO_TOKEN"))  # noqa: S106 - a name
    assert (outcome.status, outcome.attempts) == (status, 1)
    assert "redirects are not followed" in (outcome.answer or "")
    assert (len(service.keys), other.keys) == (1, [])


def test_tls_works_and_is_verified(tmp_path, monkeypatch):
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out certificate.pem"
    )
    try:
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed, which makes this test's certificate")
    with scripted_service(Answer(), tls=tmp_path) as service:
        assert "CERTIFICATE_VERIFY_FAILED" in (ask(service.url, batch(1), max_attempts=1)[0].answer or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert ask(service.url, batch(1))[0].enrichment == '{"n":0}'
