"""A federation on disk: what it left behind, and whether it is whole."""
