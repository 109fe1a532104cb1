"""Index the history of jobs in Elasticsearch or OpenSearch, as HTCondor's condor_adstash does, or write it to files."""
