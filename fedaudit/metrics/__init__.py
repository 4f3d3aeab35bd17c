"""Pure functions from observations to numbers.

* `attribution/`: Secure sums, estimates and the statistics of attribution (FedAttr).
* `overlap/`: Overlap of a generated text with a training text: verbatim, as an idea, or
  paraphrased.
* `bm25`: Which documents are most like a query: BM25 in this process.
* `budget_sweep`: What a smaller budget would have found, read off one run (FedPII, section 5.2,
  figure 4).
* `calibration`: How sure a score is: probabilities learnt from labelled scores.
* `combinatorics`: Binomial coefficients that are too large for floats.
* `counterfactual`: Counterfactual memorization: a model's output with some training data, less that
  without.
* `document_frequency`: Document frequency: in how many training texts a string stands (FedPII,
  section 5.4, figure 8).
* `expected`: The number of targets that samples find, from the probability of finding each target.
* `extraction`: Which PII strings the outputs of a model give away (FedPII, section 4.1).
* `intervals`: Intervals: a rate never travels without one.
* `log_probabilities`: Probabilities given as natural logarithms, since they may be too small for a
  float.
* `memorization`: Who draws whose text out of a model: memorization ratios (specs: Lee et al., FL
  memorization).
* `privacy/`: Membership inference, exposure of canaries, and lower bounds on epsilon.
* `persons`: How many people an attack exposes, by the strings of each person that it finds.
* `replication`: One number measured with several seeds: its mean, with an interval for both sources
  of chance.
* `significance`: Tests of whether a model gives away more than its base and guessing explain.
* `surprisal`: How surprising a set of hits is when each string has a chance of its own.
* `text_similarity`: How useful an answer is: Rouge-L, BLEU and accuracy, in English and Chinese.
"""
