"""The execution point: what a slot does when it is told something, when its policy says so, and when time is up.

``change`` is one transition with all that it entails, as the real startd's ResState does it; every other module here
comes down to it. ``claiming`` is how claims come, wait and go, ``ending`` how they are made to go, ``jobs`` what their
jobs are told, ``drains`` and ``shutdown`` how a whole machine is emptied, ``machines`` how one joins and reads its
configuration again, ``rounds`` the policy's turn. What happens because time is up is in ``timers``, beside this folder.
"""

if __name__ != "poolbook.domain.startd":
    raise ImportError(f"import this folder as poolbook.domain.startd, not as {__name__}")
