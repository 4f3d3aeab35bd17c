"""Cross-client memorization: whose text the global model continues.

* `clients`: The clients whose texts are searched for: those of a federation, or one per file.
* `comparison`: Comparing many continuations with many suffixes, in parallel processes.
* `counterfactual`: Counterfactual memorization across clients: hits with a client in training,
  minus without it.
* `findings`: The drawn suffixes as findings: masked, with an outline of where the match lies.
* `matching`: Continuing the clients' prefixes, and matching the continuations with the clients'
  suffixes.
* `measurements`: The measurements of cross-client memorization: ratios, lengths, and the texts hit
  most.
* `options`: Options of cross-client memorization, for `memorize` and for the variants of a study.
* `paraphrase`: The paraphrase stage, in which a sentence scorer and an entity finder judge
  candidates.
* `pipeline`: `fedaudit memorize`: which clients' prefixes draw which clients' texts from the global
  model.
* `prefix_length`: The prefix length of `memorize` for short texts, if the user gave none.
* `request`: The settings of `fedaudit memorize`.
* `splits`: Prefixes and suffixes: a sample of each client's distinct texts, each cut in two.
"""
