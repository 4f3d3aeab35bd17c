"""Cross-client memorization: whose text the global model continues."""
