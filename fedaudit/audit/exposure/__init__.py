"""Exposure of canaries: the rank of planted secrets, by likelihood, among all of their kind.

* `canary_copies`: The check that clients' records hold the canaries that the canary file gives
  them.
* `findings`: Findings: planted secrets whose rank is too high for chance.
* `measurements`: The report's rows on exposure in bits, by multiplicity, with the exposure due to
  chance.
* `pipeline`: `fedaudit canary measure`, from a file of canaries to a report.
* `request`: The settings of `fedaudit canary measure`.
"""
