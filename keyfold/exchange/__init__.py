"""Calls over HTTP to services outside, each within one bound and to an address that was looked at: for jobs and alerts."""
