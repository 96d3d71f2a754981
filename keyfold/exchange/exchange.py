"""An HTTP exchange with one time limit for everything: name resolution, connection, TLS, request, headers and body.

HTTP clients limit each wait for bytes, so a service that sends one byte per second is never timed out. Here an exchange is a
coroutine that is cancelled when its time is over. The host's name is resolved for each exchange, and the request goes to the
checked address. Redirects and proxies of the environment are not followed, since another host would get events and token.
"""

import asyncio
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from keyfold.exchange.addresses import Address, address_of, literal_address, why_refused

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 64 * 2**20


class Exchanges:
    """Exchanges with one URL, over kept connections; an asynchronous context manager."""

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
        # Not the event loop's threads, since its end would wait for a name resolution that hangs.
        self._resolvers = ThreadPoolExecutor(thread_name_prefix="resolver")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._resolvers.shutdown(wait=False)
        await self._transport.aclose()

    async def post(self, content: bytes, headers: Mapping[str, str]) -> "httpx.Response":
        """POST, and return the response with its whole body.

        Raises:
            TimeoutError: the response was not complete in time.
            OSError: the connection failed or broke.
            ValueError: the response is too long.
        """
        import httpx  # noqa: PLC0415

        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(content, headers)
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except httpx.TransportError as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    async def _post(self, content: bytes, headers: Mapping[str, str]) -> "httpx.Response":
        import httpx  # noqa: PLC0415

        addresses = await self._addresses()
        failure: Exception = ConnectionError(f"{self._url.host} has no address")
        for address in addresses:
            request = httpx.Request(
                "POST",
                self._url.copy_with(host=str(address)),
                # The host's name, which TLS verifies.
                headers={"Host": self._url.netloc.decode(), **self._headers, **headers},
                content=content,
                # Each address gets a share of the time, since the first one may never answer.
                extensions={
                    "sni_hostname": self._url.host,
                    "timeout": {"connect": self._timeout / len(addresses)},
                },
            )
            try:
                response = await self._transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            else:
                return await _whole(response)
        raise failure

    async def _addresses(self) -> list[Address]:
        """The host's addresses, all of them allowed, in the order to try them."""
        host, port = self._url.host, self._url.port or {"http": 80, "https": 443}[self._url.scheme]
        found = [literal] if (literal := literal_address(host)) else []
        if not found:
            loop = asyncio.get_running_loop()
            try:
                entries = await loop.run_in_executor(
                    self._resolvers, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                )
            except (OSError, UnicodeError) as error:
                raise ConnectionError(f"{host}: {error}") from error
            found = list(dict.fromkeys(address_of(str(entry[4][0])) for entry in entries))
        for address in found:
            # One refused address refuses all: the name does not belong to the expected service.
            if reason := why_refused(address, host):
                raise ConnectionError(f"{host} is at {address}, {reason}")
        return found


async def _whole(response: "httpx.Response") -> "httpx.Response":
    import httpx  # noqa: PLC0415

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
