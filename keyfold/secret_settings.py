"""Settings as text: parse them, recognize secret ones by their names, and keep their values out of logs and messages."""

import re
import shlex
from collections.abc import Mapping

from keyfold.errors import Misconfigured

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


def parse_conf(text: str, variable: str) -> dict[str, str]:
    """Parse settings separated by blanks: `spark.driver.memory=4g "spark.app.note=two words"`.

    Args:
        text: the settings.
        variable: the variable that holds them, for error messages.

    Raises:
        KeyfoldError: a part is not a setting. The message does not repeat it, as it may be half of a secret.
    """
    try:
        pairs = [part.partition("=") for part in shlex.split(text)]
    except ValueError as error:
        raise Misconfigured(f"{variable}: {error}; give name=value, and quote a value that has blanks") from None
    for place, (_, equals, _) in enumerate(pairs, 1):
        if not equals:
            raise Misconfigured(
                f"{variable}: part {place} of {len(pairs)} has no '='; give name=value, and quote a value that has "
                "blanks"
            )
    return {name: value for name, _, value in pairs}
