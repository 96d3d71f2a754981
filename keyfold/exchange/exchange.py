"""An HTTP exchange with one time limit for everything: name resolution, connection, TLS, request, headers and body.

HTTP clients limit each wait for bytes, so a service that sends one byte per second is never timed out. Here an exchange is a
coroutine that is cancelled when its time is over. The host's name is resolved for each exchange, and the request goes to the
checked address. Redirects and proxies of the environment are not followed, since another host would get events and token.
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
    """A response.

    Attributes:
        status: HTTP status code.
        headers: headers, with names in lower case.
        content: the whole body.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


class Exchanges:
    """Exchanges with one URL, over kept connections. A context manager, safe to use from several threads."""

    def __init__(self, url: str, headers: Mapping[str, str], *, timeout: float, max_connections: int) -> None:
        # Imported here, since Dagster's definitions load this module, and importing httpx takes 0.1 s.
        import httpx  # noqa: PLC0415

        self._url, self._headers, self._timeout = httpx.URL(url), dict(headers), timeout
        # A transport and not a client, since a client logs URLs, which may have secrets.
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
        # Closing the loop does not wait for a name resolution that hangs.
        self._loop.close()

    def post(self, content: bytes, headers: Mapping[str, str]) -> Answer:
        """POST, and return the whole response.

        Raises:
            TimeoutError: the response was not complete in time.
            OSError: the connection failed or broke.
            ValueError: the response is too long.
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
            # Each address gets a share of the time, since the first one may never answer.
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
        """A request to an address, with the host's name, which TLS verifies."""
        import httpx  # noqa: PLC0415

        return httpx.Request(
            "POST",
            self._url.copy_with(host=str(address)),
            headers={"Host": self._url.netloc.decode(), **self._headers, **headers},
            content=content,
            extensions={"sni_hostname": self._url.host, "timeout": {"connect": seconds_to_connect}},
        )

    async def _addresses(self) -> list[Address]:
        """The host's addresses, all of them allowed, in the order to try them."""
        host, port = self._url.host, self._url.port or {"http": 80, "https": 443}[self._url.scheme]
        found = [literal] if (literal := literal_address(host)) else []
        if not found:
            try:
                entries = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                raise ConnectionError(f"{host}: {error}") from error
            found = list(dict.fromkeys(address_of(str(entry[4][0])) for entry in entries))
        for address in found:
            # One refused address refuses all: the name does not belong to the expected service.
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
