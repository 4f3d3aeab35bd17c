"""SecureGate: dual adapters behind a gate that a key opens."""
