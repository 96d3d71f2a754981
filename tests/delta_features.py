"""Delta tables with features that other writers turn on."""

import json
from pathlib import Path


def with_feature(table: Path, properties: dict[str, str], feature: str) -> None:
    """Have a table's log say that it has a feature, as another writer would."""
    log = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    told = next(action["metaData"] for action in actions if "metaData" in action)
    told["configuration"] |= properties
    fields = json.loads(told["schemaString"])
    for at, field in enumerate(fields["fields"]):
        field["metadata"] = {"delta.columnMapping.id": at, "delta.columnMapping.physicalName": field["name"]}
    told["schemaString"] = json.dumps(fields)
    features = {"writerFeatures": [feature], "readerFeatures": [] if feature == "changeDataFeed" else [feature]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    entry = "\n".join(json.dumps(action) for action in ({"protocol": protocol}, {"metaData": told}))
    (table / "_delta_log" / f"{len(log):020d}.json").write_text(entry)
