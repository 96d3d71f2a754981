"""The webhook that alerts are sent to: one POST of JSON, within one bound, without its URL in any text."""

import json
from collections.abc import Mapping
from typing import Any

import httpcore

from spark_jobs.exchange.exchange import Exchanges

WEBHOOK = "KEYFOLD_ALERT_WEBHOOK"

SECONDS = 10.0
"""Within which a message must be taken: looking up the name, connecting, sending, and the answer's last byte."""

_TRY_AGAIN = {408, 429}


class WebhookError(Exception):
    """A message was not taken, and may be later; says why without the URL."""


class RefusedError(Exception):
    """A message was not taken and never will be; says why without the URL."""


def post(url: str, content: Mapping[str, Any], seconds: float = SECONDS) -> None:
    """Send JSON to a webhook.

    Args:
        url: http or https; no redirect from there is followed, since it might lead anywhere.
        content: what to send.
        seconds: within which all of it must be over.

    Raises:
        WebhookError: the webhook cannot be had, is too slow, or says that it may take the message later.
        RefusedError: it will not take this message.
    """
    if not url.startswith(("http://", "https://")):
        raise WebhookError(f"{WEBHOOK} is no http or https URL")
    try:
        with Exchanges(
            url, {"Content-Type": "application/json", "User-Agent": "keyfold"}, timeout=seconds, max_connections=1
        ) as exchanges:
            status = exchanges.post(json.dumps(content).encode(), {}).status
    except TimeoutError:
        reason = f"no whole answer within {seconds:g} s"
    except Exception as error:  # texts of httpcore's, and of what it calls, may hold the URL
        cause = error.__cause__
        reason = type(cause if isinstance(cause, (httpcore.NetworkError, httpcore.ProtocolError)) else error).__name__
    else:
        if status < 300:
            return
        if status < 500 and status not in _TRY_AGAIN:
            raise RefusedError(f"the webhook of {WEBHOOK} answered {status}")
        reason = f"it answered {status}"
    # Without its cause, which a traceback would show: that text may hold the URL.
    raise WebhookError(f"the webhook of {WEBHOOK} cannot be had: {reason}") from None
