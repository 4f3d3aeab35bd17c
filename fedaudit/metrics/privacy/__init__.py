"""Membership, exposure of canaries, and lower bounds on epsilon.

* `canary_exposure`: How far training moved a planted secret up among all secrets of its kind, in
  bits.
* `epsilon_audit`: An audit of a claimed epsilon by canaries whose coins were committed to before
  training.
* `epsilon_bounds`: Lower bounds on epsilon from one training run that included or left out
  canaries by coin.
* `group_bootstrap`: A true-positive rate's interval where records of one group are alike: bootstrap
  over groups.
* `likelihood_ratio`: LiRA: how a model's confidence in a record stands among models that did and
  did not train on it.
* `matched_filter`: How much of each known direction is in a change: least squares on all of them
  at once.
* `membership_scores`: Scores that say how well a model knows a text: each is higher for texts it
  was trained on.
* `membership_tests`: Whether scores tell members from others: permutation tests over groups of
  records.
* `participation`: Whether an organisation took part: a permutation test of its own groups of
  records.
* `roc`: How well scores tell members from others: the ROC curve, its area, and its low end.
"""
