"""Alerts: what has stopped, failed or is running out, reported once with its remedy, and once more when it is over.

`python -m keyfold.dagster.alerts` is a process of its own, so that a daemon that died is noticed too. It looks at
Dagster's instance, the lakehouse's journals and the disks (`runs`, `dagster_state`, `lakehouse_state`, `servers`), keeps
what is raised and what waits to be sent in Dagster's own storage (`state`), and sends it (`outbox`, `senders`).
"""
