"""The tables of reports beside each other.

* `baseline`: The tables of an audit against its baseline: leaks that are new, numbers that got
  worse.
* `defenses`: The tables of defences that a federation was trained again under: what each bought and
  cost.
* `tradeoffs`: The variants of a study beside each other: what each gives away, is worth and costs.
* `two_reports`: The tables of two reports beside each other: numbers that differ, leaks that
  appeared or went.
"""
