"""The execution point: what a slot does when it is told something, when its policy says so, and when time is up.

``change`` is one transition with all that it entails, as the real startd's ResState does it; every other module here
comes down to it. ``claiming`` is how claims come, wait and go, ``ending`` how jobs are made to go, ``drains`` and
``shutdown`` how a whole machine is emptied, ``rounds`` the policy's turn, ``due`` what happens because time is up.
"""

if __name__ != "poolbook.domain.decide.point":
    raise ImportError(f"import this folder as poolbook.domain.decide.point, not as {__name__}")
