"""One exchange over HTTP within one bound: the name, the connection, TLS, the call, its headers, and its body.

HTTP clients bound each wait for bytes, so that a service that sends one a second is waited for as long as it likes.
Here an exchange is one coroutine, which is cancelled when its time is over. A host's name is resolved for each exchange, and the
request goes to the very address that was looked at. No redirect is followed and no proxy of the environment is asked:
either would have another host get the events, and the token.
"""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from keyfold.exchange.addresses import Address, address_of, literal_address, why_refused

if TYPE_CHECKING:
    import httpx

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
        # Here, since definitions load this module, and httpx takes a tenth of a second.
        import httpx  # noqa: PLC0415

        self._url, self._headers, self._timeout = httpx.URL(url), dict(headers), timeout
        # A transport and not a client: a client logs each URL, and a webhook's is a secret.
        self._transport = httpx.AsyncHTTPTransport(
            verify=httpx.create_ssl_context() if self._url.scheme == "https" else False,
            limits=httpx.Limits(max_connections=max_connections),
            trust_env=False,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="exchanges", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait_for(self._transport.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        # Does not wait for a resolver that is away.
        self._loop.close()

    def post(self, content: bytes, headers: Mapping[str, str]) -> Answer:
        """POST and take the whole answer.

        Raises:
            TimeoutError: it is not all there within the bound.
            OSError: no connection, or it broke.
            ValueError: the answer is too long.
        """
        import httpx  # noqa: PLC0415

        try:
            return self._wait_for(asyncio.wait_for(self._post(content, headers), self._timeout))
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except httpx.TransportError as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    def _wait_for(self, work: "Coroutine[Any, Any, Any]") -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _post(self, content: bytes, headers: Mapping[str, str]) -> Answer:
        import httpx  # noqa: PLC0415

        addresses = await self._addresses()
        failure: Exception = ConnectionError(f"{self._url.host} has no address")
        for address in addresses:
            # A share of the time each: the first may be one that never answers.
            request = self._request(address, content, headers, self._timeout / len(addresses))
            try:
                response = await self._transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            else:
                return await _whole(response)
        raise failure

    def _request(
        self, address: Address, content: bytes, headers: Mapping[str, str], seconds_to_connect: float
    ) -> "httpx.Request":
        """The request to one address, under the host's name, which TLS verifies."""
        import httpx  # noqa: PLC0415

        return httpx.Request(
            "POST",
            self._url.copy_with(host=str(address)),
            headers={"Host": self._url.netloc.decode(), **self._headers, **headers},
            content=content,
            extensions={"sni_hostname": self._url.host, "timeout": {"connect": seconds_to_connect}},
        )

    async def _addresses(self) -> list[Address]:
        """The addresses of the host, all of which may be asked, in the order in which they are to be tried."""
        host, port = self._url.host, self._url.port or {"http": 80, "https": 443}[self._url.scheme]
        found = [literal] if (literal := literal_address(host)) else []
        if not found:
            try:
                entries = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                raise ConnectionError(f"{host}: {error}") from error
            found = list(dict.fromkeys(address_of(str(entry[4][0])) for entry in entries))
        for address in found:
            # Of several addresses, one that is refused refuses all: its name is not what it was thought to be.
            if reason := why_refused(address, host):
                raise ConnectionError(f"{host} is at {address}, {reason}")
        return found


async def _whole(response: "httpx.Response") -> Answer:
    body = bytearray()
    try:
        async for part in response.aiter_raw():
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
    finally:
        await response.aclose()
    return Answer(response.status_code, dict(response.headers), bytes(body))
