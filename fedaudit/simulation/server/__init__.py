"""The server: its state between rounds, and secure aggregation."""
