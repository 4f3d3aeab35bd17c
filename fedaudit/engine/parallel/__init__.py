"""Engines in several processes, on this machine or on a Ray cluster."""
