"""Engines in several processes of a Ray cluster."""
