"""The startd: how a slot responds to messages, its policy and timers.

The tables in ``state_machines`` determine a slot's next state; this package applies them. ``transitions`` performs a
transition with its actions, like HTCondor's ResState. ``claiming`` makes claims, ``vacating`` ends them, and
``job_signals`` suspends, continues and ends their jobs. ``draining`` and ``shutdown`` empty a machine. ``machines``
adds and reconfigures one, and ``periodic_evaluation`` evaluates the policy of its slots periodically. ``evaluation``,
``slot_policy_evaluation`` and ``time_limits`` evaluate the policy's expressions in the ad that ``slot_ad`` builds.
"""
