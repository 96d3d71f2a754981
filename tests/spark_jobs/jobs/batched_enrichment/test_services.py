"""Which services may be asked: what the deployment's settings must say, and what a run may choose."""

import json

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.declaration import declaration_of
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.jobs.batched_enrichment.services import SERVICES_VARIABLE, Service, enrichment_services, find_service

GEO = {"url": "https://geo.example.org/enrich", "token_variable": "GEO_TOKEN"}
TILES = {"url": "http://tiles.example.org/"}


def settings(services):
    return {SERVICES_VARIABLE: services if isinstance(services, str) else json.dumps(services)}


def test_services_are_named_by_the_deployment_and_the_first_is_what_runs_take_by_themselves():
    named = settings({"geo": GEO, "tiles": TILES})
    assert enrichment_services(named) == {"geo": Service(**GEO), "tiles": Service(**TILES)}
    assert find_service("tiles", named).url == TILES["url"]
    assert find_service("", named).url == GEO["url"]


def test_where_none_is_named_there_is_the_demo_s_on_this_machine_without_a_token():
    assert find_service("", {}) == find_service("demo", {}) == Service(url="http://127.0.0.1:8077/enrich")
    with pytest.raises(KeyfoldError, match="no service 'demo' is named"):
        find_service("demo", settings({"geo": GEO}))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "https://geo.example.org/enrich/../steal",
        "https://ann:pa55word@evil.example.org/",
    ],
)
def test_a_run_cannot_send_events_to_a_url_of_its_own(url, monkeypatch):
    monkeypatch.setenv(SERVICES_VARIABLE, json.dumps({"geo": GEO}))
    with pytest.raises(KeyfoldError, match="runs choose a service by name") as raised:
        build_job(BATCHED_ENRICHMENT, {"service": url})
    assert "pa55word" not in str(raised.value)


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ({}, r"geo\.url: Field required"),
        ({**GEO, "tokn": "x"}, r"geo\.tokn: Extra inputs"),
        ({**GEO, "token_variable": "a token"}, r"geo\.token_variable: String should match"),
        ({"url": "ftp://host/x"}, "must be http or https, and name a host"),
        ({"url": "http:///x"}, "must be http or https"),
        ({"url": ""}, "must be http or https"),
        ({"url": "file:///etc/passwd"}, "must be http or https"),
        ({"url": "http://host/a b"}, "must be http or https"),
        ({"url": "http://host/\r\nX-Other: 1"}, "must be http or https"),
        ({"url": "http://host:99999/"}, "not a valid URL"),
        ({"url": "http://[::1/"}, "not a valid URL"),
        ({**GEO, "url": "http://geo.example.org/enrich"}, "would be sent by plain http"),
        ({**GEO, "url": "http://10.0.0.7/enrich"}, "would be sent by plain http"),
    ],
)
def test_a_service_that_must_not_be_asked_is_refused_when_settings_are_loaded(service, message):
    with pytest.raises(KeyfoldError, match=f"^{SERVICES_VARIABLE}: .*{message}"):
        enrichment_services(settings({"geo": service}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Invalid JSON"),
        ("geo=https://geo.example.org", "Invalid JSON.*write it as in"),
        ("[]", "should be an object"),
        ("{}", "names no service"),
        ('{"a b": {"url": "https://x/"}}', "a b"),
        ('{"https://x/": {"url": "https://x/"}}', "should match"),
        ("[" * 100_000, "Invalid JSON"),
    ],
)
def test_settings_of_another_shape_are_refused_and_say_what_they_look_like(text, message):
    with pytest.raises(KeyfoldError, match=f"{SERVICES_VARIABLE}.*{message}"):
        enrichment_services(settings(text))


def test_a_url_with_a_password_is_refused_and_not_repeated():
    for url in ("https://ann:pa55word@host/x", "https://pa55word@host/x", "https://ann:pa55word@host:port/x"):
        with pytest.raises(KeyfoldError) as raised:
            enrichment_services(settings({"geo": {"url": url}}))
        assert "pa55word" not in str(raised.value)


def test_a_token_goes_over_plain_http_on_this_machine_alone():
    for host in ("127.0.0.1:8077", "localhost", "[::1]:9", "127.9.9.9"):
        (service,) = enrichment_services(settings({"geo": {**GEO, "url": f"http://{host}/"}})).values()
        assert service.token_variable == "GEO_TOKEN"  # noqa: S105 - a name


def test_the_address_of_the_service_is_no_code_of_the_job(monkeypatch):
    """Otherwise the job's page would say that its code has changed wherever another service is configured."""
    declared = set()
    for services in ({"geo": GEO}, {"tiles": TILES}):
        monkeypatch.setenv(SERVICES_VARIABLE, json.dumps(services))
        declared.add(declaration_of(build_job(BATCHED_ENRICHMENT, {})).model_dump_json())
    assert len(declared) == 1
