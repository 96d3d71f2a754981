"""Which addresses a service may be at.

A name is resolved once an exchange, which goes to the very address that was looked at: a name that says another thing a
moment later (DNS rebinding) leads nowhere else.
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
"""Where clouds answer a machine's questions about itself, its credentials among them, outside 169.254.0.0/16."""

_NAT64 = ip_network("64:ff9b::/96")


def literal_address(host: str) -> Address | None:
    """The address that a host is written as, None where it is a name."""
    try:
        return address_of(host)
    except ValueError:
        return None


def address_of(text: str) -> Address:
    """The address of a text, without the network interface that a link-local one names.

    Raises:
        ValueError: it is no address.
    """
    return ip_address(text.partition("%")[0])


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its own writing, before any name is resolved."""
    address = literal_address(host)
    return _plain(address).is_loopback if address else host.lower() == "localhost"


def why_refused(address: Address, host: str) -> str | None:
    """Why no connection for a host is made to an address; None where one may be."""
    address = _plain(address)
    if address.is_link_local or address in _METADATA:
        return "which is link-local or a cloud's metadata service"
    if address.is_unspecified or address.is_multicast or address == ip_address("255.255.255.255"):
        return "which is no one machine's address"
    if address.is_loopback and not is_loopback(host):
        return "which is this machine: give the service's URL a loopback address if that is meant"
    if not address.is_loopback and is_loopback(host):
        return "which is not this machine"
    return None


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, or the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped or address.sixtofour:
            return address.ipv4_mapped or address.sixtofour or address
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
