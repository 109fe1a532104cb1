"""The startd: how a slot reacts to messages, to its policy, and to the end of a time.

The tables of ``state_machines`` decide where a slot goes; this folder carries them out. ``transitions`` is one
transition with its actions, like the real startd's ResState. ``claiming`` is how claims come, wait and go, ``vacating``
how they are made to go, ``job_signals`` what their jobs are told. ``draining`` and ``shutdown`` empty a whole machine.
``machines`` is how one joins and is reconfigured, ``policy_rounds`` when its slots' policy is asked. ``evaluation``,
``slot_policy_evaluation`` and ``time_limits`` answer what the policy asks, ``slot_ad`` is the ad that its expressions
read. The end of a time is handled in ``domain/decide/timers.py``.
"""
