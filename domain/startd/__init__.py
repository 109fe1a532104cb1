"""The startd: how a slot reacts to messages, to its policy, and to timers.

The tables of ``state_machines`` decide a slot's next state, and this package applies them. ``transitions`` performs one
transition with its actions, like HTCondor's ResState. ``claiming`` makes claims, ``vacating`` ends them, and
``job_signals`` suspends, continues and ends their jobs. ``draining`` and ``shutdown`` empty a machine. ``machines``
adds and reconfigures one, and ``periodic_evaluation`` evaluates the policy of its slots periodically. ``evaluation``,
``slot_policy_evaluation`` and ``time_limits`` evaluate the policy's expressions in the ad that ``slot_ad`` makes.
"""
