"""Run Flink's SQL in its own process, in the environment with `apache-flink`; imports nothing of Keyfold.

A command is a line of JSON on standard input: settings, statements that declare tables, and the statement to run. The reply is a
line that begins with `#reply`, written when the answer is committed.
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
