"""Extraction estimated from exact probabilities in place of samples."""
