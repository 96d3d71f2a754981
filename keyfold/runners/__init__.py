"""Execute the middle of a batch: a map, a shuffle by state partition, and a map. On Spark, or in this process."""
