"""Which services may be asked: those that the deployment names, never one that a run brings along.

    KEYFOLD_ENRICHMENT_SERVICES='{"geo": {"url": "https://geo.example.org/enrich", "token_variable": "GEO_TOKEN"}}'

Whoever can start a run may choose among them by name. A URL in a run's hands would send events, and the token with
them, wherever that hand points. The first one named is asked by runs that choose none. Where the variable is not set
there is one service, `demo`: what `keyfold demo-service` serves on this machine, without a token.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from keyfold import KeyfoldError
from keyfold.exchange.addresses import is_loopback, literal_address, why_refused

SERVICES_VARIABLE = "KEYFOLD_ENRICHMENT_SERVICES"

_EXAMPLE = '{"geo": {"url": "https://geo.example.org/enrich", "token_variable": "GEO_TOKEN"}}'
_NAME = r"[a-z0-9][a-z0-9_-]{0,63}"


class Service(BaseModel):
    """One service that may be asked. Where its token is, not the token: a worker reads that when it calls."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str = Field(description="Where batches are POSTed to")
    token_variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        default=None, description="Environment variable of the Spark workers that holds the service's bearer token"
    )

    @field_validator("url")
    @classmethod
    def _is_a_service_s(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError("it is no valid URL") from None
        if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\x7f]", url):
            raise ValueError("it must be http or https, and name a host, as in https://geo.example.org/enrich")
        if not url.isascii():
            raise ValueError(
                "it has characters that no URL has; write a name such as bücher.example as xn--bcher-kva.example"
            )
        if parts.username is not None or parts.password is not None:
            raise ValueError("it holds a user or a password, which logs would repeat: use token_variable")
        if parts.fragment:
            raise ValueError("it has a fragment (#…), which is never sent")
        address = literal_address(host)
        if address and (reason := why_refused(address, host)):
            raise ValueError(f"its host is {host}, {reason}")
        return url

    @model_validator(mode="after")
    def _token_travels_safely(self) -> Self:
        if self.token_variable and urlsplit(self.url).scheme != "https" and not is_loopback(self.host):
            raise ValueError("its token would go over plain http: give an https url, or leave token_variable out")
        return self

    @property
    def host(self) -> str:
        """The host that the URL names."""
        return urlsplit(self.url).hostname or ""


DEMO = Service(url="http://127.0.0.1:8077/enrich")
"""What `keyfold demo-service` serves by itself."""

_Services = TypeAdapter(dict[Annotated[str, Field(pattern=f"^{_NAME}$")], Service])


def enrichment_services(environment: Mapping[str, str] = os.environ) -> dict[str, Service]:
    """The services that the deployment names, in its order; the demo's where it names none.

    Raises:
        KeyfoldError: KEYFOLD_ENRICHMENT_SERVICES does not say what it must; names the service and the fault.
    """
    text = environment.get(SERVICES_VARIABLE, "").strip()
    if not text:
        return {"demo": DEMO}
    try:
        services = _Services.validate_python(json.loads(text, object_pairs_hook=_once))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise KeyfoldError(f"{SERVICES_VARIABLE}: {faults.replace('Value error, ', '')}") from None
    except (ValueError, RecursionError) as error:
        raise KeyfoldError(f"{SERVICES_VARIABLE} is no JSON ({error}); it looks like {_EXAMPLE}") from None
    if not services:
        raise KeyfoldError(f"{SERVICES_VARIABLE} names no service; name one, as in {_EXAMPLE}, or leave it unset")
    return services


def find_service(chosen: str, environment: Mapping[str, str] = os.environ) -> Service:
    """The service of a name, the first one where the name is empty.

    A generation that was born when runs still gave a URL goes on with the service that has this URL.

    Raises:
        KeyfoldError: the deployment names no such service; says which there are and how to name one.
    """
    services = enrichment_services(environment)
    if not chosen:
        return next(iter(services.values()))
    if chosen in services:
        return services[chosen]
    for service in services.values():
        if service.url == chosen:
            return service
    names = ", ".join(services)
    if "://" in chosen:
        # Not repeated: it may hold a password.
        raise KeyfoldError(
            "parameter service is a URL, but runs choose a service by its name. Where the generation was born with a URL: "
            f"name that URL in {SERVICES_VARIABLE}, as in {_EXAMPLE}, and its runs go on; or give service a name (there "
            f"are: {names})"
        )
    raise KeyfoldError(
        f"no service {chosen!r} is named in {SERVICES_VARIABLE} (there are: {names}); give one of these, or name it there, as "
        f"in {_EXAMPLE}"
    )


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # Of a name that stands twice, JSON readers take the last: which one was meant is not theirs to say.
    if twice := {name for name, _ in pairs if [given for given, _ in pairs].count(name) > 1}:
        raise ValueError(f"{', '.join(sorted(twice))} stands there twice")
    return dict(pairs)
