"""The access points' requests to negotiators: the idle jobs in their order, and which of them are alike for a match.

HTCondor's schedd sends this as submitter ads and resource requests. Both roles use it, and neither decides it: the
order follows from the jobs' own priorities, likeness from what slots and the negotiator read of a job.
"""
