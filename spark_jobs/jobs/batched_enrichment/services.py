"""Read the services that may be called: only those in the environment, never an address from a run.

    KEYFOLD_ENRICHMENT_SERVICES='{"geo": {"url": "https://geo.example.org/enrich", "token_variable": "GEO_TOKEN"}}'

A run can choose a service by name. If a run could give a URL, it could send events and the token to any address. Runs that
choose none use the first service. If the variable is not set, there is one service, `demo`: that of `keyfold demo-service` on
this machine, without a token.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from keyfold import KeyfoldError

SERVICES_VARIABLE = "KEYFOLD_ENRICHMENT_SERVICES"

_EXAMPLE = '{"geo": {"url": "https://geo.example.org/enrich", "token_variable": "GEO_TOKEN"}}'
_NAME = r"[a-z0-9][a-z0-9_-]{0,63}"


class Service(BaseModel):
    """A service that may be called. It has the token's variable, not the token, which a worker reads when it calls.

    Its fields are those of a place where the job runs, and no part of its code: they are excluded from the job's fingerprint.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str = Field(description="URL to which batches are sent by POST", exclude=True)
    token_variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        default=None,
        description="Environment variable of the Spark workers with the service's bearer token",
        exclude=True,
    )

    @field_validator("url")
    @classmethod
    def _is_valid(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError("it is not a valid URL") from None
        if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\x7f]", url):
            raise ValueError("it must be http or https, and name a host, as in https://geo.example.org/enrich")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it contains a user or a password, which logs would show: use token_variable")
        return url

    @model_validator(mode="after")
    def _token_travels_safely(self) -> Self:
        if self.token_variable and urlsplit(self.url).scheme != "https" and not _is_this_machine(self.host):
            raise ValueError("its token would be sent by plain http: give an https URL, or omit token_variable")
        return self

    @property
    def host(self) -> str:
        """The host that the URL names."""
        return urlsplit(self.url).hostname or ""


DEMO = Service(url="http://127.0.0.1:8077/enrich")
"""The service of `keyfold demo-service`."""

_Services = TypeAdapter(dict[Annotated[str, Field(pattern=f"^{_NAME}$")], Service])


def enrichment_services(environment: Mapping[str, str] = os.environ) -> dict[str, Service]:
    """Return the services of KEYFOLD_ENRICHMENT_SERVICES, in its order; the demo's if it is not set.

    Raises:
        KeyfoldError: the variable is invalid; the message names the service and the fault.
    """
    text = environment.get(SERVICES_VARIABLE, "").strip()
    if not text:
        return {"demo": DEMO}
    try:
        services = _Services.validate_json(text)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise KeyfoldError(
            f"{SERVICES_VARIABLE}: {faults.replace('Value error, ', '')}; write it as in {_EXAMPLE}"
        ) from None
    if not services:
        raise KeyfoldError(f"{SERVICES_VARIABLE} names no service; name one, as in {_EXAMPLE}, or do not set it")
    return services


def find_service(chosen: str, environment: Mapping[str, str] = os.environ) -> Service:
    """Return the service of a name; the first one if the name is empty.

    Raises:
        KeyfoldError: no such service is configured; the message lists the services.
    """
    services = enrichment_services(environment)
    if not chosen:
        return next(iter(services.values()))
    if chosen in services:
        return services[chosen]
    # A URL is not repeated, since it may contain a password.
    what = "that is a URL" if "://" in chosen else repr(chosen)
    raise KeyfoldError(
        f"no service {what} is named in {SERVICES_VARIABLE}: runs choose a service by name (there are: {', '.join(services)}); "
        f"give one of these, or name it there, as in {_EXAMPLE}"
    )


def _is_this_machine(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
