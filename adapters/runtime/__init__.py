"""The runtime of a pool: the engine, the server, clients of both, and the log's subscribers."""
