"""Evidence that others can check: commitments, bundles, verification."""
