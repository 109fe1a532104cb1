"""Go to any moment of a log, and compare two logs."""
