"""The access points' requests to negotiators: the ordered idle jobs, and their autoclusters.

HTCondor's schedd sends this information as submitter ads and resource requests. Access points and negotiators both use
this package. The order follows from the jobs' own priorities. The autoclusters follow from the job attributes that
slots and the negotiator read."""
