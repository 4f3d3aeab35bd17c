"""Who is flagged, and how often that would be wrong.

* `calibration`: How often a federation's own settings accuse somebody innocent, and whom they
  find.
* `decision`: The decision: each client's scores of all rounds as one statistic, and who is
  flagged by it.
* `known_designs`: What estimates hold of other clients, and what each client itself adds to its
  scores, for whoever knows the sets of the sums.
* `contamination`: What Z takes from other clients' marked documents.
* `null_distribution`: What an innocent client's Z is by chance, and what it may hold of marked
  clients' updates.
"""
