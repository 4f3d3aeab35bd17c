"""Many reports beside each other: what is in a folder of runs, and trends over rounds.

* `entries`: The runs in a folder, each with what its report comes to; those that cannot be read,
  too.
* `tables`: The tables of a folder of runs: one line a run, and one a number by round.
* `trends`: What became of a federation's numbers from round to round, over the runs that audited
  it.
"""
