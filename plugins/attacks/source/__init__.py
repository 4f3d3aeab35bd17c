"""Source inference: which client a record came from, told from the clients' own models."""
