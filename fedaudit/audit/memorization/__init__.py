"""Cross-client memorization: whose text the global model continues.

* `clients`: Whose texts are looked for: the clients of a federation, or a file each.
* `comparison`: Comparing many continuations with many suffixes, in processes, each suffix
  prepared once.
* `counterfactual`: What prefixes draw because a client took part: with it in training, less
  without it.
* `findings`: The suffixes that were drawn, as findings: masked, with a picture of where the match
  lies.
* `matching`: What a model's continuations have of the clients' suffixes.
* `measurements`: The measurements of cross-client memorization: ratios, lengths, and what was hit
  most.
* `options`: How cross-client memorization is measured: the options of `memorize` and of a study's
  variant.
* `paraphrase`: The paraphrase stage: candidates are judged by a scorer of sentences and a finder
  of entities.
* `pipeline`: Cross-client memorization: who can draw whose text out of the global model.
* `prefix_length`: How long the prefixes of `memorize` are where nobody said it: as long as the
  texts allow.
* `request`: What `fedaudit memorize` is asked to do.
* `splits`: Prefixes and suffixes: the clients' texts, drawn, cut in two and without copies.
"""
