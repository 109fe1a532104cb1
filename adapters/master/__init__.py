"""The master of a machine: runs the processes of its roles, and starts them again."""
