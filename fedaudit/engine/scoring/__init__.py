"""Log-likelihoods of texts.

* `log_likelihood`: Scoring texts: the log-probability of every token given the tokens before it.
* `shared_prefix`: Scoring groups of sequences that share a prefix, which is prefilled once per
  group.
"""
