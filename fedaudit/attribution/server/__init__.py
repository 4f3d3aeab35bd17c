"""The server's part: which sums to ask for, and the estimates they give.

* `collusion`: What a server learns from the sums together with clients who tell it their own
  updates.
* `defaults`: The design of a server that named none, or only parts of one: the nearest that can
  be.
* `dry_run`: What an attribution would ask, take and give away, before anything is asked.
* `estimation`: The server's step of FedAttr: which sums to ask for, and the estimates that they
  give.
* `ledger`: The server's ledger, in the federation's folder: which sets were asked for in each
  round, once.
* `masks`: What an estimate holds of the updates of others than its client.
* `query_plan`: What a server asks secure aggregation for: designs for every participant of every
  round.
* `round_designs`: What is asked for in one round, by either protocol: pairs of sets, or sets that
  all share.
* `set_selection`: Drawing what a round is asked for, by either protocol.
* `shared_defaults`: The rules that a federation's shared sets are drawn by: as named, or the
  nearest that can be.
* `sums_log`: The server's log of sums: every set that was ever asked for, and the seed. It stays
  with it.
"""
