"""The impact of a leak: the people it exposes, and whether the client's own records caused it."""
