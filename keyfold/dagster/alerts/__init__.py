"""Send alerts about failures, stopped services and full disks, once with a remedy and once when they are over.

`python -m keyfold.dagster.alerts` runs as a separate process, so that it can also report that Dagster's daemon has died. It
checks Dagster's instance, the lakehouse's journals and the disks (`runs`, `dagster_state`, `lakehouse_state`, `servers`),
stores raised conditions and unsent alerts in Dagster's storage (`state`), and sends alerts (`outbox`, `senders`).
"""
