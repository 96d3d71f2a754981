"""One exchange over HTTP within one bound: the name, the connection, TLS, the call, its headers, and its body.

HTTP clients bound each wait for bytes, so that a service that sends one a second is waited for as long as it likes.
Here every wait is for what is left of the whole: the socket below httpcore is ours. That is also where it is seen which
address a connection goes to. No redirect is followed and no proxy of the environment is asked: either would have another
host get the events, and the token.
"""

import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpcore

from keyfold.exchange.addresses import resolve, why_refused

MAX_ANSWER_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: of HTTP.
        headers: names in lower case.
        content: the whole body.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


class Exchanges:
    """Keeps connections to one URL; a context manager, safe to call from several threads."""

    def __init__(self, url: str, headers: Mapping[str, str], *, timeout: float, max_connections: int) -> None:
        self._url, self._timeout = url, timeout
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._network = _BoundedNetwork()
        self._pool = httpcore.ConnectionPool(
            ssl_context=_certificates() if url.startswith("https:") else None,
            max_connections=max_connections,
            network_backend=self._network,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def post(self, content: bytes, headers: Mapping[str, str]) -> Answer:
        """POST and take the whole answer.

        Raises:
            TimeoutError: it is not all there within the bound.
            OSError: no connection, or it broke.
            ValueError: the answer is too long.
        """
        sent = [*self._headers, *((name.encode(), value.encode()) for name, value in headers.items())]
        body = bytearray()
        with self._network.within(self._timeout):
            try:
                request = self._pool.stream(
                    "POST", self._url, headers=sent, content=content, extensions={"timeout": {"pool": self._timeout}}
                )
                with request as response:
                    for part in response.iter_stream():
                        body += part
                        if len(body) > MAX_ANSWER_BYTES:
                            raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
            except httpcore.TimeoutException as error:
                raise TimeoutError from error
            except (httpcore.NetworkError, httpcore.ProtocolError) as error:
                raise ConnectionError(f"{type(error).__name__}: {error}") from error
        received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, received, bytes(body))


def _certificates() -> ssl.SSLContext:
    # Here, since definitions load this module: httpx takes a tenth of a second, and only https needs what it knows.
    import httpx  # noqa: PLC0415

    return httpx.create_ssl_context()


class _BoundedNetwork(httpcore.NetworkBackend):
    """Connects to addresses that were looked at, and waits no longer than the calling thread's exchange may take."""

    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()
        self._thread = threading.local()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Bound all that this thread does on the network."""
        self._thread.deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            # What closes a connection later, on whatever thread, gets a moment for it.
            del self._thread.deadline

    def left(self) -> float:
        """Seconds that the thread's exchange may still take.

        Raises:
            httpcore.ReadTimeout: none.
        """
        left = getattr(self._thread, "deadline", time.monotonic() + 1) - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the exchange takes too long")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of the host that answers."""
        try:
            addresses = resolve(host, port, self.left())
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} was not resolved in time") from None
        except OSError as error:
            raise httpcore.ConnectError(f"{host}: {error}") from error
        for address in addresses:
            # Of several addresses, one that is refused refuses all: its name is not what it was thought to be.
            if reason := why_refused(address, host):
                raise httpcore.ConnectError(f"{host} is at {address}, {reason}")
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for place, address in enumerate(addresses):
            # A share of the time each: the first may be one that never answers.
            share = self.left() / (len(addresses) - place)
            try:
                stream = self._sockets.connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _BoundedStream(stream, self)
        raise failure

    def sleep(self, seconds: float) -> None:
        """Nothing here sleeps: the client makes its own pauses."""
        self._sockets.sleep(seconds)


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose every wait is bounded by what is left of the exchange."""

    def __init__(self, stream: httpcore.NetworkStream, network: _BoundedNetwork) -> None:
        self._stream, self._network = stream, network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._network.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # Not the stream's own write: it gives each piece that the other side takes the whole time anew.
        socket, rest = self._stream.get_extra_info("socket"), memoryview(buffer)
        try:
            while rest:
                socket.settimeout(self._network.left())
                rest = rest[socket.send(rest) :]
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _BoundedStream(self._stream.start_tls(ssl_context, server_hostname, self._network.left()), self._network)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
