"""Ranked candidates for others' PII, as an attacker sees them who only knows its own data."""
