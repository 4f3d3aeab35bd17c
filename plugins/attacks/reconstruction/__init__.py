"""Reconstruction of records from a client's LoRA update (DAGER)."""
