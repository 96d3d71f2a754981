"""The webhook: what counts as taken, as refused, and as to be tried again; it never takes longer than its bound."""

import time
from collections.abc import Iterator

import pytest

from keyfold.dagster.alerts.outbox import NotTakenError, RefusedError
from keyfold.dagster.alerts.webhook import post
from tests.keyfold.dagster.alerts.scripted_webhook import ScriptedWebhook, answer, drip, garbage, hang, reset


@pytest.fixture
def webhook() -> Iterator[ScriptedWebhook]:
    webhook = ScriptedWebhook()
    yield webhook
    webhook.close()


def test_a_message_that_is_taken_is_there_as_it_was_sent(webhook):
    post(webhook.url, {"text": "3 checks failed", "failed": [{"check": "größe"}]})
    assert webhook.got == [{"text": "3 checks failed", "failed": [{"check": "größe"}]}]


@pytest.mark.parametrize("status", [302, 401, 404, 408, 410, 429, 500, 503])
def test_an_answer_that_may_be_another_one_later_is_to_be_tried_again(webhook, status):
    webhook.script = [answer(status)]
    with pytest.raises(NotTakenError, match=f"it answered {status}") as raised:
        post(webhook.url, {})
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_answer_that_will_be_the_same_is_a_refusal(webhook, status):
    webhook.script = [answer(status)]
    with pytest.raises(RefusedError, match=f"answered {status}") as raised:
        post(webhook.url, {})
    assert "SECRET" not in str(raised.value)


def test_a_redirect_is_not_followed(webhook):
    webhook.script = [answer(302, f"Location: {webhook.url}")]
    with pytest.raises(NotTakenError, match="answered 302"):
        post(webhook.url, {})
    assert webhook.tried == 1


@pytest.mark.parametrize("act", [hang(), drip(), reset, garbage], ids=["hangs", "drips", "resets", "speaks no HTTP"])
def test_a_webhook_that_does_not_answer_is_given_up_in_time(webhook, act):
    webhook.script = [act]
    began = time.monotonic()
    with pytest.raises(NotTakenError) as raised:
        post(webhook.url, {}, seconds=1.0)
    assert time.monotonic() - began < 3
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/SECRET",
        "http://no.such.host.invalid/SECRET",
        "http://[/SECRET",
        "http://a b/SECRET",
        "http://127.0.0.1:SECRET/",
        "http://169.254.169.254/SECRET",
    ],
)
def test_a_url_that_leads_nowhere_is_an_error_that_does_not_show_it(url):
    with pytest.raises(NotTakenError) as raised:
        post(url, {}, seconds=2.0)
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is None
