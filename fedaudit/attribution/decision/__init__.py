"""Who is flagged, and how often that would be wrong.

* `calibration`: How often a federation's own settings accuse an innocent client, and find a marked
  one.
* `decision`: The decision: each client's scores of all rounds as one statistic, and who is
  flagged by it.
* `known_designs`: What estimates hold of other clients, and what each client itself adds to its
  scores.
* `contamination`: What Z takes from other clients' marked documents: from scores and what is known
  of the sets.
* `null_distribution`: What an innocent client's Z is by chance, and what it may hold of marked
  clients' updates.
* `mixtures`: The distribution of other clients' shares in an estimate where the sets are not
  known.
"""
