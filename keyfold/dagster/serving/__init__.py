"""Serve Dagster for `make ui`: its pages, its daemon, the code server.

`pages` starts the servers, and `supervisor` ends them with the process that started them. `gate` and `web_server` admit only
users with the link. `home` creates DAGSTER_HOME, and `daemon` allows one daemon per DAGSTER_HOME.
"""
