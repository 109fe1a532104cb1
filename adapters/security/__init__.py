"""The security of roles on several machines.

``tokens`` creates and verifies IDTOKENS as HTCondor does, ``authority`` is the pool's own certificate authority, and
``authorization`` applies the ALLOW_* and DENY_* lists. Secrets are in a private directory next to the log
(``private_files.security_folder``).
"""
