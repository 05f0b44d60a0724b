"""One trial in one process: fork server, watchdog, outcomes, records on disk."""
