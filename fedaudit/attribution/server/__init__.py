"""The server's part: which sums to ask for, and the estimates they give.

* `collusion`: What a server learns from the sums together with clients who tell it their own
  updates.
* `defaults`: The settings of a server that named none, or only some: the nearest that are
  possible.
* `dry_run`: What an attribution would ask, take and give away, before anything is asked.
* `estimation`: The server's step of FedAttr: which sums to ask for, and the estimates that they
  give.
* `ledger`: The server's ledger, in the federation's folder: which sets were asked for in each
  round, once.
* `masks`: What an estimate holds of the updates of other clients than its own.
* `round_designs`: What is asked for in one round, by either protocol: pairs of sets, or sets that
  all share.
* `set_selection`: Draws the sets that a round is asked for, by either protocol.
* `shared_defaults`: The rules for drawing a federation's shared sets: as named, or the nearest
  possible ones.
* `simulation_report`: The report that a whole simulation left in its folder: when it began, and
  how long it took.
* `sum_plan`: What a server asks secure aggregation for: designs for every participant of every
  round.
* `sums_log`: The server's log of sums: every set that was ever asked for, and the seed. It stays
  with it.
"""
