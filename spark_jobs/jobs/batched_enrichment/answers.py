"""How the client reads an answer: one result an event, whatever the service sent."""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, NoReturn

from spark_jobs.jobs.batched_enrichment.protocol import is_retryable


class Result(NamedTuple):
    """One event's result in one answer.

    Attributes:
        enrichment: JSON text, None of a failure.
        status: HTTP status, None where there was none.
        answer: of a failure, its reason.
        retryable: whether it is worth another try.
    """

    enrichment: str | None
    status: int | None
    answer: str | None = None
    retryable: bool = False


def read_results(text: str, events: int) -> list[Result]:
    """The results of an answer to a call about so many events.

    Raises:
        ValueError: the answer has another shape. (RecursionError: it is nested too deep.)
    """
    answer = json.loads(text, parse_constant=_no_number)
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        _refuse("it is no object with a list of results")
    if len(results) != events:
        _refuse(f"it has {len(results)} results for {events} events")
    return [_result(result) for result in results]


def _result(result: Any) -> Result:
    status = result.get("status") if isinstance(result, dict) else None
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        return Result(None, None, f"malformed result: {_json(result)}", retryable=True)
    if not 200 <= status <= 299:
        error = result.get("error")
        return Result(None, status, error if isinstance(error, str) else _json(result), is_retryable(status))
    if "enrichment" not in result:
        return Result(None, status, f"malformed result, no enrichment: {_json(result)}", retryable=True)
    return Result(_json(result["enrichment"]), status)


def _json(value: Any) -> str:
    # allow_nan: 1e999 is read as infinity, which no JSON can say.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read_retry_after(value: str | None) -> float:
    """Seconds that a Retry-After header asks for: a number, or a date; 0 where it is neither."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _no_number(name: str) -> NoReturn:
    _refuse(f"{name} is no JSON")


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
