"""Read the settings of alerts from the environment; checked when definitions load and when alerts start."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from keyfold.errors import Misconfigured

WEBHOOK = "KEYFOLD_ALERT_WEBHOOK"
ALERTS = "KEYFOLD_ALERTS"
DISK = "KEYFOLD_ALERT_DISK_PERCENT"
QUARANTINE = "KEYFOLD_ALERT_QUARANTINE_PERCENT"


@dataclass(frozen=True)
class Destination:
    """A destination of alerts.

    Attributes:
        name: `webhook`, or the service with a number, such as `slack 1`; not secret.
        url: the address; secret.
    """

    name: str
    url: str = field(repr=False)

    @property
    def service(self) -> str:
        """The kind of service, such as `slack`."""
        return self.name.partition(" ")[0]


@dataclass(frozen=True)
class AlertSettings:
    """The settings of alerts.

    Attributes:
        destinations: where alerts are sent; if empty, they are only logged.
        disk_percent: an alert is raised when less than this share of a disk is free.
        quarantine_percent: an alert is raised when at least this share of new rows is quarantined.
    """

    destinations: tuple[Destination, ...] = ()
    disk_percent: float = 10.0
    quarantine_percent: float = 5.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "AlertSettings":
        """Read the settings from the environment.

        Raises:
            KeyfoldError: a setting is wrong; the message names it, but no address.
        """
        found, counts = list[Destination](), dict[str, int]()
        if webhook := environment.get(WEBHOOK):
            if not webhook.startswith(("http://", "https://")):
                raise Misconfigured(f"{WEBHOOK} is not an http or https URL")
            found.append(Destination("webhook", webhook))
        for number, url in enumerate(environment.get(ALERTS, "").split(), start=1):
            service, separator, _ = url.partition("://")
            if not separator or not service.isalnum():
                raise Misconfigured(
                    f"{ALERTS}: address {number} does not have the form service://…; give Apprise addresses "
                    "such as slack://…, mailtos://… and pagerduty://…, separated by blanks"
                )
            counts[service] = counts.get(service, 0) + 1
            found.append(Destination(f"{service} {counts[service]}", url))
        return cls(
            tuple(found),
            _percent(environment, DISK, cls.disk_percent),
            _percent(environment, QUARANTINE, cls.quarantine_percent),
        )


def _percent(environment: Mapping[str, str], name: str, default: float) -> float:
    given = environment.get(name)
    if not given:
        return default
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 0 < value < 100:
        raise Misconfigured(f"{name} is {given!r}: give a number between 0 and 100")
    return value
