"""Audits: from one party's data and a model to a report."""
