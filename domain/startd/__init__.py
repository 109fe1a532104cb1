"""The execution point: what a slot does when it is told something, when its policy says so, and when time is up.

Where a slot goes is decided by the tables of ``state_machines``; here they are put to work. ``transitions`` is one
transition with all that it entails, as the real startd's ResState does it. ``claiming`` is how claims come, wait and
go, ``vacating`` how they are made to go, ``job_signals`` what their jobs are told. ``draining`` and ``shutdown`` empty
a whole machine. ``machines`` is how one joins and reads its configuration again, ``policy_rounds`` how its slots are
asked their policy every so often. ``evaluation``, ``slot_policy`` and ``time_limits`` answer what the policy asks,
``slot_ad`` has what its expressions see. What happens because time is up is in ``domain/decide/timers.py``.
"""

if __name__ != "poolbook.domain.startd":
    raise ImportError(f"import this folder as poolbook.domain.startd, not as {__name__}")
