"""The server's part: which sums to ask for, and the estimates they give.

* `collusion`: What a server learns from the sums together with clients who tell it their own
  updates.
* `defaults`: The settings of a server that named none, or only some: the nearest possible ones.
* `dry_run`: A preview of an attribution: its sums, costs and leakage, before anything is asked for.
* `estimation`: The server's step of FedAttr: which sums to ask for, and the estimates that they
  give.
* `ledger`: The server's ledger, in the federation's folder: which sets were asked for in each
  round, once.
* `masks`: The shares of other clients' updates in a client's estimate.
* `round_designs`: The design of one round's sums, by either protocol: pairs of sets, or sets that
  all share.
* `set_selection`: Draws the sets of clients whose sums a round asks for, by either protocol.
* `shared_defaults`: The rules for drawing a federation's shared sets: as named, or the nearest
  possible ones.
* `simulation_report`: The report that a complete simulation left in its folder: when it began, how
  long it took.
* `stored_updates`: Single updates that a federation has stored: what sums are asked over, and how
  alike they are.
* `sum_plan`: The plan of the sums to ask for: designs for every participant of every round.
* `sums_log`: The server's log of sums, which it keeps to itself: every set it ever asked for, and
  the seed.
"""
