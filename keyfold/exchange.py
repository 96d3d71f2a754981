"""An HTTP exchange with one time limit for everything, and only with checked addresses.

HTTP clients limit each wait for bytes, so a service that sends one byte per second is never timed out. Here an exchange (name
resolution, connection, TLS, request, headers and body) is a coroutine that is cancelled when its time is over. A name is resolved once
per exchange, and the connection goes to the address that was checked: a name that resolves to another address a moment later (DNS
rebinding) has no effect. Redirects and proxies of the environment are not followed, since another host would get events and token.
"""

import asyncio
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import httpx

Address = IPv4Address | IPv6Address

_METADATA = (
    ip_address("100.100.100.200"),
    ip_address("168.63.129.16"),
    ip_address("192.0.0.192"),
    ip_address("fd00:ec2::254"),
    ip_address("fd20:ce::254"),
)
"""Addresses of clouds' metadata services, which give out credentials, outside of 169.254.0.0/16."""

_NAT64 = ip_network("64:ff9b::/96")

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


def literal_address(host: str) -> Address | None:
    """The address if a host is written as one; None if it is a name."""
    try:
        return address_of(host)
    except ValueError:
        return None


def address_of(text: str) -> Address:
    """Parse an address, and drop the network interface of a link-local one.

    Raises:
        ValueError: the text is not an address.
    """
    return ip_address(text.partition("%")[0])


def is_loopback(host: str) -> bool:
    """Whether a host is written as this machine: a loopback address or `localhost`. No name is resolved."""
    address = literal_address(host)
    return _plain(address).is_loopback if address else host.lower() == "localhost"


def why_refused(address: Address, host: str) -> str | None:
    """Why a connection for a host to an address is refused; None if it is allowed."""
    address = _plain(address)
    if address.is_link_local or address in _METADATA:
        return "which is link-local or a cloud's metadata service"
    if address.is_unspecified or address.is_multicast or address == ip_address("255.255.255.255"):
        return "which is not the address of a single machine"
    if address.is_loopback and not is_loopback(host):
        return "which is this machine: if that is intended, use a loopback address in the service's URL"
    if not address.is_loopback and is_loopback(host):
        return "which is not this machine"
    return None


def _plain(address: Address) -> Address:
    """The IPv4 address that is embedded in an IPv6 one, or the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped or address.sixtofour:
            return address.ipv4_mapped or address.sixtofour or address
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


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
