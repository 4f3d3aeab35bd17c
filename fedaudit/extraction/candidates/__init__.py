"""Ranked candidates for others' PII, as an attacker sees them who only knows its own data.

* `confidence`: The probability that a candidate is true, calibrated on the attacker's own strings.
* `junk_filter`: Filtering out candidates that do not look like PII, judged by the attacker's own
  PII.
* `observations`: The strings that completions contain where the attacker's own PII would follow,
  with counts.
* `origins`: The documents from which the attacker's own prompts and strings come.
* `ranking`: Ranking candidates as an attacker would who only has its own data, the most credible
  first.
* `support`: The mean likelihood of a string after prompts for its kind, under a model and its base.
"""
