"""Who is flagged, and how often that would be wrong.

* `calibration`: How often a federation's own settings accuse somebody innocent, and whom they
  find.
* `decision`: The decision: each client's scores of all rounds as one statistic, and who is
  flagged by it.
* `null_distribution`: What an innocent client's Z is by chance, and what it may hold of marked
  clients' updates.
"""
