"""What `make ui` serves: Dagster's pages, its daemon, the code server, a warm Spark, and the end of them all.

`supervisor` keeps servers for as long as whoever started them lives; `daemon` keeps a second daemon from a home;
`home` puts the project's dagster.yaml where there is none; `gate` and `web_server` let in who has the link; `pages` says what
is served.
"""
