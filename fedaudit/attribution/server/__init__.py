"""The server's part: which sums to ask for, and the estimates they give."""
