"""Who is flagged, and how often that would be wrong.

* `calibration`: How often a federation's own settings flag an innocent client, and find a marked
  one.
* `decision`: The decision: each client's scores of all rounds as one statistic, and who is
  flagged by it.
* `known_designs`: The shares of other clients in estimates, and what each client itself adds to its
  scores.
* `contamination`: How much of Z comes from other clients' marked documents, by the scores and any
  known sets.
* `null_distribution`: The null distribution of an innocent client's Z: chance, and marked clients'
  updates.
* `mixtures`: The distribution of other clients' shares in an estimate where the sets are not
  known.
"""
