"""SecureGate: two adapters a client, and a gate that a key opens (arXiv:2602.13529)."""
