"""What an attacker sees who knows nobody's data but its own: ranked candidates.

* `confidence`: How far an attacker may believe its candidates, learnt from strings whose truth it
  knows.
* `junk_filter`: Filtering out what no attacker would take for others' personal data, judged by
  its own.
* `observations`: What answers give where the attacker's own PII would stand: how often, and
  behind what.
* `origins`: Where the attacker's own prompts and strings are at home: a string asked for there
  proves little.
* `ranking`: What an attacker sees who has nobody's data but its own: candidates, the most
  credible first.
* `support`: How likely a model, and its base, finds a string behind many prompts of its kind.
"""
