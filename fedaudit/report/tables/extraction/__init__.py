"""The tables of extraction."""
