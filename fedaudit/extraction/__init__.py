"""Extraction with prefixes: query plan, sampling, matching, scoring and tests.

Attacks subclass `prefix_attack.PrefixAttack`.
"""
