"""The access points' requests to negotiators: the idle jobs in order, and their autoclusters.

HTCondor's schedd sends this as submitter ads and resource requests. Both roles use it. The jobs' own priorities
determine the order, and the job attributes that slots and the negotiator read determine the autoclusters.
"""
