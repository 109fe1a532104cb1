"""HTTPS between the manager and the other roles: joining a pool, and the service that other routes are added to."""
