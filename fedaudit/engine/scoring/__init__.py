"""Log-likelihoods of texts.

* `instruction_following`: Scoring made-up examples: what each answer costs with its prompt and
  without (FewFedPIT, 3.3).
* `log_likelihood`: Scoring texts: the log-probability of every token given those before it.
* `shared_prefix`: Scoring groups of sequences that begin alike: what a group shares is read once.
"""
