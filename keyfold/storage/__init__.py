"""Object stores: objects as paths, and leases as locks."""
