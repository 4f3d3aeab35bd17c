"""Extraction estimated from exact probabilities in place of samples.

* `accumulators`: Sums of a walk's results over prefixes, for one chunk of a query plan or for all
  of it.
* `estimator`: Extraction computed from exact probabilities, which an auditor can do who knows the
  targets.
* `expected_coverage`: Probabilities and expected numbers of strings found with n samples of every
  prefix.
* `findings`: Findings of the exact estimator: targets that may come out, and the samples needed for
  that.
* `measurements`: Expected coverage and efficiency for any number of samples, from one walk of
  each model.
* `sources`: The expected results of an attack on the tuned model, its base and the control strings.
* `walk`: The walk of one model over all prefixes of a query plan, with sums for each string.
"""
