"""Homes on an object store: objects as paths, and leases in place of locks."""
