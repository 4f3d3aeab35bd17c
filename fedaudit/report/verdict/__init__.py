"""The verdict: what its rules share, and the rules for what is no kind of row by itself."""
