"""What the demo service does with a call, without HTTP: works, remembers, and fails on demand."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Any, NoReturn

from spark_jobs.jobs.batched_enrichment.protocol import KEY_HEADER, MAX_EVENTS

_GEOHASH_DIGITS = "0123456789bcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class ServiceSettings:
    """How the service behaves.

    Attributes:
        host: address to listen on.
        port: to listen on; 0 takes a free one.
        failure_rate: share of calls answered 503, and of the other calls' events: worth another try.
        reject_rate: share of events answered 422, always the same ones: not worth another try.
        latency: seconds that a call takes at least.
        seed: of the failures.
        token: bearer token that calls must bring; empty asks for none.
        max_stored_bytes: of answers remembered for keys that come again; the oldest are forgotten first.
    """

    host: str = "127.0.0.1"
    port: int = 8077
    failure_rate: float = 0.0
    reject_rate: float = 0.0
    latency: float = 0.0
    seed: int = 0
    token: str = field(default="", repr=False)
    max_stored_bytes: int = 256 * 2**20


class Refused(Exception):
    """A call that is answered with an error as a whole."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class _Known:
    """What is remembered of a key: what came with it, how often it was tried, and its answer once there is one."""

    events_digest: bytes
    tries: int = 0
    answer: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        return 500 + len(self.answer or "")


class EnrichmentBackend:
    """The service's work and memory; safe to use from several threads.

    Attributes:
        unanswered: calls right now whose answer is not out.
        draining: whether the service is ending and takes no more.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.draining = False
        self.unanswered = 0
        self._in_flight = self._in_flight_most = self._calls = self._repeated_calls = self._events = 0
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._stored_bytes = 0

    def stats(self) -> dict[str, int]:
        with self._lock:
            return {
                "calls": self._calls,
                "repeated_calls": self._repeated_calls,
                "events": self._events,
                "in_flight_most": self._in_flight_most,
            }

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call, which is unanswered until the context ends."""
        with self._lock:
            self._calls += 1
            self.unanswered += 1
        try:
            yield
        finally:
            with self._lock:
                self.unanswered -= 1

    def answer(self, key: str | None, token: str, body: bytes) -> str:
        """The JSON of the answer.

        Raises:
            Refused: the call as a whole fails.
        """
        if self.draining:
            raise Refused(503, "the service is ending")
        wanted = f"Bearer {self.settings.token}"
        if self.settings.token and not compare_digest(token.encode(), wanted.encode()):
            raise Refused(401, "the bearer token is missing or wrong")
        with self._in_flight_now():
            return self._answer(key, body)

    def _answer(self, key: str | None, body: bytes) -> str:
        events = _events(body)
        known = self._recall(key, sha256(body).digest())
        # One call of a key at a time: one that comes again while the first still runs waits for its answer.
        with known.lock:
            if known.answer is not None:
                with self._lock:
                    self._repeated_calls += 1
                return known.answer
            known.tries += 1
            return self._try(key or f"call {self._calls}", known, events)

    @contextmanager
    def _in_flight_now(self) -> Iterator[None]:
        # Ends before the answer goes out: its caller may have sent the next call by the time that is done.
        with self._lock:
            self._in_flight += 1
            self._in_flight_most = max(self._in_flight_most, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def _try(self, key: str, known: _Known, events: list[Any]) -> str:
        """Work on the events, or fail on demand."""
        settings = self.settings
        time.sleep(settings.latency)
        if self._share("call", key, known.tries) < settings.failure_rate:
            raise Refused(503, "failed on demand")
        fails = [self._share("event", key, place) < settings.failure_rate for place in range(len(events))]
        results = [
            error_json(503, "failed on demand") if fail else self._result(event)
            for fail, event in zip(fails, events, strict=True)
        ]
        answer = '{"results":[' + ",".join(results) + "]}"
        with self._lock:
            self._events += len(events) - sum(fails)
            size, known.answer = known.size, answer
            if self._known.get(key) is known:
                self._stored_bytes += known.size - size
                self._forget()
        return answer

    def _recall(self, key: str | None, digest: bytes) -> _Known:
        """What is remembered of a key, anew for one that never came or was forgotten."""
        if key is None:
            return _Known(digest)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = _Known(digest)
                self._stored_bytes += known.size
                self._forget()
            elif known.events_digest != digest:
                raise Refused(422, f"this {KEY_HEADER} came before with other events")
            self._known.move_to_end(key)
            return known

    def _forget(self) -> None:
        while self._stored_bytes > self.settings.max_stored_bytes and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._stored_bytes -= oldest.size

    def _result(self, event: Any) -> str:
        text = _json(event)
        checksum = sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        if self._share("reject", checksum) < self.settings.reject_rate:
            return error_json(422, "rejected on demand")
        if not isinstance(event, dict):
            return error_json(422, "an event must be an object")
        latitude, longitude = event.get("latitude"), event.get("longitude")
        if latitude is None and longitude is None:
            return _json({"status": 200, "enrichment": {"checksum": checksum, "echo": event}})
        try:
            place = geohash(latitude, longitude)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return error_json(422, "latitude must be -90 to 90 degrees and longitude -180 to 180")
        return _json({"status": 200, "enrichment": {"checksum": checksum, "geohash": place}})

    def _share(self, *words: object) -> float:
        """A number from 0 to under 1 that seed and words decide."""
        digest = sha256(repr((self.settings.seed, *words)).encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48


def geohash(latitude: float, longitude: float, length: int = 7) -> str:
    """The geohash of a position in degrees (Niemeyer 2008; 7 digits are about 150 m by 150 m).

    Raises:
        ValueError: the position is not on the earth.
    """
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ValueError("latitude must be -90 to 90 degrees and longitude -180 to 180")
    ranges = [[-180.0, 180.0], [-90.0, 90.0]]
    number = 0
    for bit in range(5 * length):
        bounds, value = ranges[bit % 2], (longitude, latitude)[bit % 2]
        middle = (bounds[0] + bounds[1]) / 2
        is_above = value >= middle
        bounds[0 if is_above else 1] = middle
        number = 2 * number + is_above
    return "".join(_GEOHASH_DIGITS[number >> 5 * place & 31] for place in reversed(range(length)))


def _events(body: bytes) -> list[Any]:
    try:
        content = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is no JSON") from None
    events = content.get("events") if isinstance(content, dict) else None
    if not isinstance(events, list):
        raise Refused(400, "the body must be an object with a list of events")
    if len(events) > MAX_EVENTS:
        raise Refused(413, f"{len(events):,} events; a call takes at most {MAX_EVENTS:,}")
    return events


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def error_json(status: int, reason: str) -> str:
    """The JSON of a failure, of an event or a whole call."""
    return json.dumps({"status": status, "error": reason})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
