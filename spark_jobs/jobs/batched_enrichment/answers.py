"""Parse an answer of the service into one result per event."""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, NoReturn

from spark_jobs.jobs.batched_enrichment.protocol import is_retryable


class Result(NamedTuple):
    """One event's result in one answer.

    Attributes:
        enrichment: JSON text, None for a failure.
        status: HTTP status, None if there was no answer.
        answer: the reason of a failure.
        retryable: whether the call may be retried.
    """

    enrichment: str | None
    status: int | None
    answer: str | None = None
    retryable: bool = False


def read_results(text: str, events: int) -> list[Result]:
    """Return the results of an answer to a call with this number of events.

    Raises:
        ValueError: the answer is malformed.
        RecursionError: the answer is nested too deeply.
    """
    answer = json.loads(text, parse_constant=_no_number)
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        _refuse("it is not an object with a list of results")
    if len(results) != events:
        _refuse(f"it has {len(results)} results for {events} events")
    return [_result(result) for result in results]


def _result(result: Any) -> Result:
    status = result.get("status") if isinstance(result, dict) else None
    # In Python, JSON's true is an integer too.
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        return Result(None, None, f"malformed result: {_json(result)}", retryable=True)
    if not 200 <= status <= 299:
        error = result.get("error")
        return Result(None, status, error if isinstance(error, str) else _json(result), is_retryable(status))
    if "enrichment" not in result:
        return Result(None, status, f"malformed result, no enrichment: {_json(result)}", retryable=True)
    return Result(_json(result["enrichment"]), status)


def _json(value: Any) -> str:
    # allow_nan=False: 1e999 is parsed as infinity, which JSON cannot represent.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read_retry_after(value: str | None) -> float:
    """Return the seconds of a Retry-After header, given as a number or a date; 0 if it is neither."""
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
    _refuse(f"{name} is not JSON")


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
