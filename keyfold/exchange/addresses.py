"""Check the addresses of a service.

A name is resolved once per exchange, and the connection goes to the address that was checked. So a name that resolves to
another address a moment later (DNS rebinding) has no effect.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

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
