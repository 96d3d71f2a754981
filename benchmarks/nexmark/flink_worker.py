"""Runs Flink's SQL in a process of its own, with the environment that has `apache-flink`; it imports nothing of Keyfold.

A command is a line of JSON on its standard input: settings, statements that declare tables, and the one that runs. The answer
is a line that begins with `#reply`, once all is written and committed.
"""

import json
import sys
from typing import Any

from pyflink.common import Configuration  # pyright: ignore[reportMissingImports]
from pyflink.table import EnvironmentSettings, TableEnvironment  # pyright: ignore[reportMissingImports]


def run(command: dict[str, Any]) -> dict[str, Any]:
    """Run one query to its end."""
    settings = Configuration()
    for name, value in command["settings"].items():
        settings.set_string(name, value)
    environment = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    flink = TableEnvironment.create(environment)
    for statement in command["tables"]:
        flink.execute_sql(statement)
    flink.execute_sql(command["insert"]).wait()
    return {}


def main() -> None:
    for line in sys.stdin:
        try:
            reply = run(json.loads(line))
        except Exception as error:
            reply = {
                "error": " ".join(
                    line for line in str(error).splitlines() if "xception" in line and "\tat " not in line
                )[-500:]
            }
        print("#reply " + json.dumps(reply), flush=True)


main()
