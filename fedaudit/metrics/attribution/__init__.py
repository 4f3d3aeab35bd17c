"""Secure sums, estimates and the statistics of attribution (FedAttr).

* `combinations`: Estimates as combinations of sums over sets of clients.
* `contamination`: How much of an innocent client's Z may come from marked clients in its
  estimates.
* `contributions`: What each client itself adds to the scores of a federation, where the designs
  are known.
* `group_contamination`: What the estimates of a round take from each group of marked clients,
  where sets are known.
* `hypotheses`: Which clients are marked, by hypothesis, with a booster or a hidden client among
  them.
* `known_contamination`: How much of clients' Z may come from marked clients in their estimates,
  where sets are known.
* `leak_distribution`: The distribution of what a Z takes from other clients' marks, on a grid.
* `marked_groups`: Which clients may be the ones that trained on a mark.
* `mixture`: What is known of how much of other clients' updates an estimate holds: draws of such
  shares.
* `shared_rule`: The rule by which a round's shared sets are drawn: how many, within which limit,
  for whom.
* `shared_sets`: Sets of half the clients that the estimates of a whole round share, in place of
  pairs for each.
* `shared_sets_distribution`: What estimates by shared sets hold of other clients, by simulating
  how such sets are drawn.
* `stouffer`: Scores of several rounds as one statistic, its p-value and the decision (FedAttr,
  section 4.3).
* `subset_design`: Which sums to ask for one client, and what their difference estimates (FedAttr,
  section 4.1).
* `sum_leakage`: What a series of admissible sums gives away, although no single sum does
  (FedAttr, section 5).
* `unmixed_scores`: What each member of a group of marked clients shows by its own update, where
  sets are known.
* `weighting`: Masks in sums of w_j times an update: an estimate then holds c_j w_j / w_i of
  another client.
"""
