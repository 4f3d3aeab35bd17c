"""Extraction estimated from exact probabilities in place of samples.

* `accumulators`: What walks find of some strings, added up over prefixes: one chunk of a plan, or
  all of it.
* `estimator`: Extraction without sampling noise: for an auditor, who knows the targets, it can be
  computed.
* `expected_coverage`: How likely strings are to be found: by one model, asked with every prefix
  any number of times.
* `findings`: Findings of an exact walk: the targets that may come out, and how many samples that
  takes.
* `measurements`: Expected coverage and efficiency for any number of samples, from one walk of
  each model.
* `sources`: What an attack would get of both models, and of the control, computed instead of
  sampled.
* `walk`: Walking from every prefix of a plan, and adding up what one model gives of each string.
"""
