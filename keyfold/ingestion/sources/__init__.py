"""Sources of raw events: landing folders and Kafka topics."""
