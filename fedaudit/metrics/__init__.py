"""Pure functions from observations to numbers."""
