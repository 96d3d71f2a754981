"""Call the service by HTTP: one call per batch, a bounded number of tries, and an outcome for every event.

Between two tries of a batch, the client pauses: exponential backoff with full jitter (Brooker, "Exponential Backoff And
Jitter", AWS Architecture Blog, 2015) plus the service's `Retry-After`, at most `LONGEST_PAUSE`. Events with a final result are not
sent again.

HTTP clients limit each wait for bytes, so a service that sends one byte per second is never timed out. Here a whole call, from the name
lookup to the last byte, is cancelled when its time is over. Redirects and proxies of the environment are not followed, since another
host would get events and token.

The client raises only for a wrong setting. The token is used only in the request's header.
"""

import asyncio
import json
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

import httpx
from pydantic import BaseModel, Field, ValidationError

from keyfold import KeyfoldError
from spark_jobs.jobs.batched_enrichment.protocol import KEY_HEADER, Batch, Outcome
from spark_jobs.jobs.batched_enrichment.services import Service

if TYPE_CHECKING:
    from spark_jobs.jobs.batched_enrichment.job import BatchedEnrichmentParameters

ANSWER_CHARACTERS = 1000
"""Number of characters of an answer that a dead letter contains."""

MAX_ANSWER_BYTES = 64 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""Seconds of the longest pause after the first try, which doubles with each; and of any pause, `Retry-After` included."""

_Reply = tuple[list[Outcome], float, bool]
"""Of a call: an outcome per event; the seconds to wait, as the service asks; whether it answered, so that the batch's key is used up."""


class EnrichmentClient:
    """Calls the service; an asynchronous context manager.

    Args:
        service: the service.
        parameters: those of the job, which bound calls.
    """

    def __init__(
        self,
        service: Service,
        parameters: "BatchedEnrichmentParameters",
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._parameters, self._sleep, self._chance = parameters, sleep, chance
        self._token, self._url = _token(service), httpx.URL(service.url)
        self._headers = {"Content-Type": "application/json", "User-Agent": "keyfold"}
        if self._token:
            self._headers["Authorization"] = f"Bearer {self._token}"
        # A transport and not a client, since a client logs URLs, which may have secrets.
        self._transport = httpx.AsyncHTTPTransport(
            verify=httpx.create_ssl_context() if self._url.scheme == "https" else False,
            limits=httpx.Limits(max_connections=parameters.max_in_flight),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.aclose()

    async def __call__(self, batch: Batch) -> list[Outcome]:
        """Call until every event has a final result or its tries are used up."""
        outcomes: dict[int, Outcome] = {}
        places = list(range(len(batch)))
        part = batch
        for attempt in range(1, self._parameters.max_attempts + 1):
            found, retry_after, answered = await self._post(part)
            is_last = attempt == self._parameters.max_attempts
            again = [at for at, outcome in enumerate(found) if not (outcome.is_final or is_last)]
            for at in set(range(len(part))).difference(again):
                outcomes[places[at]] = found[at]._replace(attempts=attempt)
            if not again:
                break
            places = [places[at] for at in again]
            # An unanswered batch keeps its key: the service may have processed it already.
            part = part.again(again) if answered else part
            await self._sleep(self._pause(attempt, retry_after))
        return [outcomes[place] for place in range(len(batch))]

    def _pause(self, attempt: int, retry_after: float) -> float:
        return min(LONGEST_PAUSE, retry_after + self._chance() * min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)))

    async def _post(self, batch: Batch) -> _Reply:
        request = httpx.Request(
            "POST", self._url, headers={**self._headers, KEY_HEADER: batch.idempotency_key}, content=batch.body()
        )
        seconds = self._parameters.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                answer = await _whole(await self._transport.handle_async_request(request))
        except TimeoutError:
            return self._failed(batch, None, f"no answer within {seconds:g} s")
        # Any exception: a failed call is an outcome, and must not fail the run.
        except Exception as error:
            return self._failed(batch, None, f"{type(error).__name__}: {error}")
        status, retry_after = answer.status_code, read_retry_after(answer.headers.get("retry-after"))
        text = answer.content.decode("utf-8", "replace")
        if not answer.is_success:
            moved = f"redirects are not followed: {answer.headers['location']}" if answer.has_redirect_location else ""
            return self._failed(batch, status, moved or text or answer.reason_phrase or "no reason given", retry_after)
        try:
            outcomes = read_results(text, len(batch))
        except (ValueError, RecursionError) as error:
            return self._failed(batch, status, f"malformed answer, {error}: {text}", retry_after)
        return [self._shown(outcome) for outcome in outcomes], retry_after, True

    def _failed(self, batch: Batch, status: int | None, answer: str, retry_after: float = 0) -> _Reply:
        return [self._shown(Outcome(None, 1, status, answer))] * len(batch), retry_after, False

    def _shown(self, outcome: Outcome) -> Outcome:
        """Return an outcome that may be stored: without a token that the service sent back, and in valid UTF-8."""
        answer, enrichment = outcome.answer, outcome.enrichment
        return outcome._replace(
            answer=answer and _valid(self._redacted(answer)[:ANSWER_CHARACTERS])[:ANSWER_CHARACTERS],
            enrichment=enrichment and _valid(self._redacted(enrichment)),
        )

    def _redacted(self, text: str) -> str:
        return text.replace(self._token, "[token]") if self._token else text


async def _whole(response: httpx.Response) -> httpx.Response:
    body = bytearray()
    try:
        async for part in response.aiter_raw():
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
    finally:
        await response.aclose()
    # As it came: a body that is said to be compressed is not decompressed, which would need a limit of its own.
    headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
    return httpx.Response(response.status_code, headers=headers, content=bytes(body))


class _Answered(BaseModel, strict=True):
    """One event's result, as the service sends it."""

    status: Annotated[int, Field(ge=100, le=599)]
    enrichment: Any = None
    error: Any = None


def read_results(text: str, events: int) -> list[Outcome]:
    """Return the outcomes in an answer to a call with this number of events.

    Raises:
        ValueError: the answer is malformed.
        RecursionError: the answer is nested too deeply.
    """
    # With Python's json, which keeps whole numbers of any length, and repeats half of a surrogate pair as it came.
    answer = json.loads(text, parse_constant=_no_number)
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise ValueError("it is not an object with a list of results")  # noqa: TRY004 - an answer, not an argument
    if len(results) != events:
        raise ValueError(f"it has {len(results)} results for {events} events")
    return [_outcome(result) for result in results]


def _outcome(result: Any) -> Outcome:
    try:
        found = _Answered.model_validate(result)
    except ValidationError:
        return Outcome(None, 1, answer=f"malformed result: {_json(result)}")
    status, error = found.status, found.error
    if not 200 <= status <= 299:
        return Outcome(None, 1, status, error if isinstance(error, str) else _json(result))
    if "enrichment" not in found.model_fields_set:
        return Outcome(None, 1, status, f"malformed result, no enrichment: {_json(result)}")
    return Outcome(_json(found.enrichment), 1, status)


def _json(value: Any) -> str:
    # allow_nan=False: 1e999 is parsed as infinity, which JSON cannot represent.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def read_retry_after(value: str | None) -> float:
    """Return the seconds of a Retry-After header, given as a number or a date; 0 if it is neither."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text) if len(text) < 10 else 0.0
    with suppress(ValueError, OverflowError):
        moment = parsedate_to_datetime(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return 0.0


def _token(service: Service) -> str:
    if service.token_variable is None:
        return ""
    token = os.environ.get(service.token_variable, "").strip()
    if not token:
        raise KeyfoldError(
            f"{service.token_variable}, with the token of the enrichment service at {service.host}, is not set in the "
            "environment of Spark's workers; set it where Spark is started, or remove token_variable from the settings"
        )
    if not (token.isascii() and token.isprintable()):
        raise KeyfoldError(
            f"{service.token_variable} contains characters that are not allowed in an HTTP header; set it to the token only"
        )
    return token


def _valid(text: str) -> str:
    """Escape lone surrogates, which JSON allows but UTF-8 does not."""
    return text.encode("utf-8", "backslashreplace").decode()
