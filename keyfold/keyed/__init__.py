"""The engine of keyed jobs: declare a job (`job`), run it on Spark (`runner`, `running`), and report on runs (`reporting`)."""
