"""Log-likelihoods of texts."""
