"""The names of the loopback address in a request's Host header.

A browser can reach loopback from any web page. A page whose own name resolves to 127.0.0.1 (DNS rebinding) could also read
the answers. Its requests have that name as Host, so refusing other names than loopback's stops it.
"""

ADDRESS = "127.0.0.1"
NAMES = frozenset({ADDRESS, "localhost", "[::1]"})


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    Example:
        >>> host_name("LocalHost:3000"), host_name("[::1]:3000"), host_name("evil.example:80")
        ('localhost', '[::1]', 'evil.example')
    """
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()
