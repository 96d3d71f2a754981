"""Parameters of jobs whose keys end by silence."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from keyfold import Duration, EventTimeParameters, TimeKind, Timeout, parameter


def kind_of_timeout(change: Literal["migrate", "refresh"]) -> Any:
    """Declare the parameter `timeout_in` of a job whose state can be moved to another, or cannot."""
    return parameter(
        "event_time",
        change=change,
        description="event_time: a silence is measured between two events of a key. processing_time: from the run that brought "
        "a key's last event, whatever its event time",
    )


class SilentParameters(EventTimeParameters):
    """Parameters of a job whose keys end by silence."""

    timeout_in: TimeKind = kind_of_timeout("migrate")


class ExpiringParameters(SilentParameters):
    """Parameters of a job whose keys never close by themselves, and may expire."""

    timeout_in: TimeKind = kind_of_timeout("refresh")
    expire_after: Duration | None = Field(
        None,
        description="Silence after which a key's state is dropped, so that its next event starts again. None: keys do not "
        "expire",
    )

    @model_validator(mode="after")
    def _timeout_is_of_the_expiry(self) -> Self:
        if self.expire_after is None and self.timeout_in != "event_time":
            raise ValueError(f"timeout_in={self.timeout_in} requires expire_after; give it a duration such as `30d`")
        return self

    @property
    def expiry(self) -> Timeout | None:
        """The timeout that ends a key, or None."""
        return None if self.expire_after is None else Timeout(self.expire_after, self.timeout_in)
