"""Inference by ranking candidates (SecureGate)."""
