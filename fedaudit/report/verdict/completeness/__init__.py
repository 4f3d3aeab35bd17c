"""Whether a report still holds everything that it tells of.

* `attack_list`: Which attacks a report names without holding a measurement of them.
* `finding_counts`: How many findings a report lacks, by its measurements and by the numbers of its
  findings.
"""
