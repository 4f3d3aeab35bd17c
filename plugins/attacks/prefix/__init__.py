"""Attacks with prefixes (FedPII): contextual, superset, frequency."""
