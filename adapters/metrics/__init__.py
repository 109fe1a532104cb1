"""Publishes metrics about a pool's daemons, as HTCondor's condor_metricd and condor_gangliad do: evaluates metric
definitions (``definitions``) in the daemons' ads (``evaluation``), and publishes the metrics through Ganglia
(``ganglia``) and for Prometheus (``prometheus``)."""
