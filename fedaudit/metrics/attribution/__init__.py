"""Secure sums, estimates and the statistics of attribution (FedAttr)."""
