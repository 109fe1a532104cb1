"""The owner's policy: what a machine is willing to run, and when a job must make way.

``settings`` are the names of a policy with their defaults, ``readings`` what a machine's sensors say, ``view`` the ad
that the expressions see, ``rules`` which expression drives which transition, dialect by dialect, and ``terms`` how long
a job is granted. What follows from them is decided in ``decide/point``.
"""

if __name__ != "poolbook.domain.policy":
    raise ImportError(f"import this folder as poolbook.domain.policy, not as {__name__}")
