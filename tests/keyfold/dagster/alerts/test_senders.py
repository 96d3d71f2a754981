"""Apprise: what is taken, what is not, in bounded time, and without an address in any text."""

import json
import smtplib
from typing import Any

import pytest
import requests

from keyfold.dagster.alerts import senders
from keyfold.dagster.alerts.condition import Change, Condition
from keyfold.dagster.alerts.message import entry, message
from keyfold.dagster.alerts.outbox import NotTakenError
from keyfold.dagster.alerts.senders import check_addresses, most_in_a_message, sender
from keyfold.dagster.alerts.settings import Destination
from keyfold.errors import KeyfoldError
from tests.keyfold.dagster.alerts.scripted_webhook import ScriptedWebhook, answer, hang

FAILED = Condition("job rides", "error", "run 1a2b failed", "start it again")
RAISED, CLEARED = (entry(Change(state, FAILED, 0)) for state in ("raised", "cleared"))


def test_what_a_service_does_not_take_or_not_in_time_is_said_without_the_address():
    service = ScriptedWebhook()
    to = Destination("json 1", service.url.replace("http://", "json://"))
    service.script = [answer(403), hang()]
    for seconds, reason in ((None, "it answered 403"), (8, "(no answer within 8 s|it cannot be reached)")):
        with pytest.raises(
            NotTakenError, match=f"json 1 of KEYFOLD_ALERTS did not accept the message: {reason}"
        ) as raised:
            sender(to, seconds)([RAISED], 0)
        assert "SECRET" not in str(raised.value)
    service.close()


def test_a_service_gets_the_title_the_text_and_how_grave_it_is_and_no_redirect_is_followed():
    service = ScriptedWebhook()
    url = service.url.replace("http://", "json://")
    assert send_here(url, RAISED) == 0
    assert (service.got[0]["title"], service.got[0]["type"]) == ("Keyfold: job rides", "failure")
    assert service.got[0]["message"] == "error: job rides: run 1a2b failed. Remedy: start it again"
    service.script = [answer(302, f"Location: {service.url}")]
    assert send_here(url, RAISED) == 1
    assert service.tried == 2
    service.close()


def test_an_address_that_apprise_does_not_know_is_an_error_at_the_start():
    with pytest.raises(KeyfoldError, match="slack 1 is not an address that Apprise supports") as raised:
        check_addresses([Destination("webhook", "http://h"), Destination("slack 1", "slack://SECRET")])
    assert "SECRET" not in str(raised.value)


@pytest.fixture
def sent(monkeypatch) -> list[dict[str, Any]]:
    """What Apprise sends to services whose addresses are their own, in this process."""
    bodies = list[dict[str, Any]]()

    def take(_: Any, method: str, url: str, **more: Any) -> requests.Response:
        bodies.append({"url": url, **json.loads(more["data"])})
        response = requests.Response()
        response.status_code, response._content = (202 if "pagerduty" in url else 200), b"ok"
        return response

    monkeypatch.setattr(requests.Session, "request", take)
    return bodies


def send_here(url: str, *entries: dict[str, Any]) -> int:
    told = message(list(entries))
    return senders._send({"url": url, "title": told.title, "body": told.body, "kind": told.kind})


def test_pagerduty_resolves_the_incident_that_it_has_triggered(sent):
    assert most_in_a_message(Destination("pagerduty 1", "")) == 1
    for one in (RAISED, CLEARED):
        assert send_here("pagerduty://routing@key", one) == 0
    assert [one["event_action"] for one in sent] == ["trigger", "resolve"]
    assert sent[0]["dedup_key"] == sent[1]["dedup_key"]
    assert sent[0]["payload"]["severity"] == "critical"
    assert "Remedy: start it again" in sent[0]["payload"]["summary"]


def test_slack_gets_what_and_the_remedy(sent):
    assert send_here("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", RAISED, CLEARED) == 0
    text = json.dumps(sent)
    assert "Keyfold: 1 raised, 1 over" in text
    assert "Remedy: start it again" in text


def test_mail_goes_out_by_smtp(monkeypatch):
    mails = list[str]()

    class Smtp:
        def __init__(self, host: str, *_: Any, **__: Any) -> None:
            assert host == "mail.example"

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

        def sendmail(self, sender: str, to: list[str], content: str) -> dict[str, Any]:
            mails.append(f"{to} {content}")
            return {}

    monkeypatch.setattr(smtplib, "SMTP", Smtp)
    assert send_here("mailto://me:word@mail.example?to=operator@example.com&mode=insecure", RAISED) == 0
    assert "operator@example.com" in mails[0]
    assert "Keyfold: job rides" in mails[0]
