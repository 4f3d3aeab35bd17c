"""Probabilities of strings computed exactly, without sampling."""
