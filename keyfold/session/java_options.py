"""Give the Java process of Spark its options for logging, and its settings in a private file."""

from collections.abc import Mapping
from pathlib import Path

_OPTIONS = "spark.driver.extraJavaOptions"


def quietly_logged(conf: Mapping[str, str]) -> dict[str, str]:
    """Add settings with which Java logs only warnings and errors, unless they configure logging themselves."""
    options = conf.get(_OPTIONS, "")
    if "log4j2.configurationFile" not in options:
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return {**conf, _OPTIONS: options}


def write_properties(file: Path, conf: Mapping[str, str]) -> None:
    """Write settings in the format of Java's properties, readable only for this user."""
    file.touch(mode=0o600)
    file.write_text("".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items()), encoding="ascii")


def _escaped(text: str) -> str:
    """Escape text for java.util.Properties."""
    # java.util.Properties is ASCII; all other characters are \uXXXX escapes of UTF-16 units.
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]
    return "".join(
        chr(code)
        if chr(code).isascii() and (chr(code).isalnum() or chr(code) in ".-_/,*@$+()[]{}")
        else f"\\u{code:04x}"
        for code in codes
    )
