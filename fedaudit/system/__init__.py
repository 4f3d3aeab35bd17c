"""Files, locks, processes and sandboxes."""
