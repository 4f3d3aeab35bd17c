"""Secure sums, estimates and the statistics of attribution (FedAttr).

* `combinations`: Estimates of updates as linear combinations of sums over sets of clients.
* `contamination`: The part of an innocent client's Z that may leak in from marked clients in its
  estimates.
* `contributions`: Each client's own contribution to the scores of a federation whose designs are
  known.
* `group_contamination`: The leak from each group of marked clients into the estimates of a round
  with known sets.
* `hypotheses`: Hypotheses of which clients are marked, including boosters and hidden clients.
* `known_contamination`: The part of clients' Z that may leak in from marked clients, if the sets
  are known.
* `leak_distribution`: The distribution of the leak into a Z from other clients' marks, on a grid.
* `marked_groups`: Groups of clients that may be the ones that trained on a mark.
* `mixture`: The distribution of the shares of other clients' updates in an estimate, as draws.
* `shared_rule`: The rule by which a round's shared sets are drawn: number, limit, threshold and
  participants.
* `shared_sets`: Sets of half the clients that all estimates of a round share, instead of pairs for
  each client.
* `shared_sets_distribution`: The distribution of shares in estimates by shared sets, from a
  simulation of drawing the sets.
* `stouffer`: Combining scores of several rounds: the statistic Z, its p-value and the decision
  (FedAttr, 4.3).
* `subset_design`: Designs of the sums to request for one client, and their properties (FedAttr,
  section 4.1).
* `sum_leakage`: Leakage of a series of admissible sums, none of which leaks by itself (FedAttr,
  section 5).
* `unmixed_scores`: The scores of a group of marked clients by their own updates alone, if the sets
  are known.
* `weighting`: Masks in weighted sums, by which an estimate holds c_j w_j / w_i of another client's
  update.
"""
