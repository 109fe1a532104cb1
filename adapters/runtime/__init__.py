"""A running pool: the engine, the server, the door for commands, the log's subscribers."""
