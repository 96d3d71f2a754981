"""Secrets among settings, known by their names, and kept out of whatever people or logs read."""

import re
from collections.abc import Mapping

SENSITIVE = (
    r"(?i)secret|passw|passphrase|token|credential|(access|account|api|private|encryption|signing)[._-]?key"
    r"|[._-]sas([._-]|$)|://[^/@\s]*:[^/@\s]+@"
)
"""What gives a secret away: Spark's own `spark.redaction.regex`, with the names of cloud stores, and passwords in URLs."""

HIDDEN = "(hidden)"

_SHORTEST = 4
"""Characters. A shorter secret would be found in half of all words."""

_PATTERN = re.compile(SENSITIVE)
_OF_JAVA = re.compile(r"-D([^=\s]+)=")


def is_secret(name: str, value: str = "") -> bool:
    """Whether a setting is a secret by its name, or by what its value looks like.

    Example:
        >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.driver.memory")
        (True, False)
    """
    return bool(_PATTERN.search(name) or _PATTERN.search(value))


def shown(name: str, value: str) -> str:
    """A setting's value as it may be shown.

    Example:
        >>> shown("spark.hadoop.fs.s3a.secret.key", "abc"), shown("spark.driver.memory", "2g")
        ('(hidden)', '2g')
    """
    return HIDDEN if is_secret(name, value) else value


def without_secrets(text: str, settings: Mapping[str, str]) -> str:
    """Text without the values of secret settings: what another program says of its trouble may repeat them.

    Example:
        >>> without_secrets("login abcd failed", {"spark.a.password": "abcd"})
        'login (hidden) failed'
    """
    secrets = {value for name, value in settings.items() if len(value) >= _SHORTEST and is_secret(name, value)}
    # The longest first: one secret may be part of another, and its rest would stay.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def secret_java_options(options: str) -> list[str]:
    """Names of the secrets among Java's options.

    Example:
        >>> secret_java_options("-Xmx1g -Djavax.net.ssl.trustStorePassword=abc")
        ['javax.net.ssl.trustStorePassword']
    """
    return [name for name in _OF_JAVA.findall(options) if is_secret(name)]
