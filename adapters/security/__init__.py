"""The security of roles on several machines.

``tokens`` creates and verifies IDTOKENS as HTCondor does; ``authority`` is the pool's own certificate authority. Their
files are in a private directory next to the log (``private_files.security_folder``).
"""
