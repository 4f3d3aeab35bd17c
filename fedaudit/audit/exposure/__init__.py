"""Exposure of canaries: how far training moved planted secrets up among all of their kind.

* `canary_copies`: Whether clients' records hold the canaries that a file says they were given.
* `findings`: The secrets that training gave away, as findings.
* `measurements`: The rows of a report: exposure by multiplicity, and what chance gives.
* `pipeline`: `fedaudit canary measure`, from a file of canaries to a report.
* `request`: What `fedaudit canary measure` is asked to do.
"""
