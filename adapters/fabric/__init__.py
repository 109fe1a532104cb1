"""The fabric between a pool's roles that run separately: carriers of datagrams, and the broker between machines."""
