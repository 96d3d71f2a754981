"""Recognize secret settings by their names, and keep their values out of logs and messages."""

import re
from collections.abc import Mapping

SENSITIVE = (
    r"(?i)secret|passw|passphrase|token|credential|(access|account|api|private|encryption|signing)[._-]?key"
    r"|[._-]sas([._-]|$)|://[^/@\s]*:[^/@\s]+@"
)
"""The pattern of secrets: Spark's `spark.redaction.regex`, with the names of cloud stores, and passwords in URLs."""

HIDDEN = "(hidden)"

_SHORTEST = 4
"""Minimum characters of a secret that is replaced in text. Shorter ones would match parts of ordinary words."""

_PATTERN = re.compile(SENSITIVE)
_OF_JAVA = re.compile(r"-D([^=\s]+)=")


def is_secret(name: str, value: str = "") -> bool:
    """Return whether a setting is a secret, by its name or the form of its value.

    Example:
        >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.driver.memory")
        (True, False)
    """
    return bool(_PATTERN.search(name) or _PATTERN.search(value))


def shown(name: str, value: str) -> str:
    """Return a setting's value for display: hidden if it is a secret.

    Example:
        >>> shown("spark.hadoop.fs.s3a.secret.key", "abc"), shown("spark.driver.memory", "2g")
        ('(hidden)', '2g')
    """
    return HIDDEN if is_secret(name, value) else value


def without_secrets(text: str, settings: Mapping[str, str]) -> str:
    """Hide the values of secret settings in text, such as the error message of another program.

    Example:
        >>> without_secrets("login abcd failed", {"spark.a.password": "abcd"})
        'login (hidden) failed'
    """
    secrets = {value for name, value in settings.items() if len(value) >= _SHORTEST and is_secret(name, value)}
    # Longest first: if one secret is part of another, the rest of the longer one would stay visible.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def secret_java_options(options: str) -> list[str]:
    """Return the names of secrets in Java options.

    Example:
        >>> secret_java_options("-Xmx1g -Djavax.net.ssl.trustStorePassword=abc")
        ['javax.net.ssl.trustStorePassword']
    """
    return [name for name in _OF_JAVA.findall(options) if is_secret(name)]
