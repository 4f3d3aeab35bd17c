"""Personally identifiable information: spans, checksums, and where it is found in text."""
