"""Log-likelihoods of texts.

* `log_likelihood`: Scoring texts: the log-probability of every token given those before it.
* `shared_prefix`: Scoring groups of sequences that begin alike: what a group shares is read once.
"""
