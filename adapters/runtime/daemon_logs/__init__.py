"""Write the logs of HTCondor daemons from the pool's log: SchedLog, StartLog, NegotiatorLog and others."""
