"""The master: which daemons of a machine run, when a daemon that has ended is started again, and when the
administrator is informed (HTCondor's ``src/condor_master.V6``).

``daemon_list`` reads from a configuration which processes a machine runs, and ``master_settings`` when they are started
again. ``supervision`` decides, and changes its state only by its ``transitions``. ``obituary`` writes mails.
"""
