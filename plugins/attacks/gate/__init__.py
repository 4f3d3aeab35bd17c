"""Guessing the key of a deployed gate (SecureGate)."""
