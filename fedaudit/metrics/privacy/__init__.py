"""Membership inference, exposure of canaries, and lower bounds on epsilon.

* `canary_exposure`: Exposure of a planted secret, in bits, from its rank among all secrets of its
  kind.
* `epsilon_audit`: Auditing a claimed epsilon with canaries whose coins were committed to before
  training.
* `epsilon_bounds`: Lower bounds on epsilon from one training run with canaries included or excluded
  by coin.
* `group_bootstrap`: The interval of a true positive rate for grouped records: a bootstrap over
  groups.
* `likelihood_ratio`: LiRA: a model's confidence in a record, compared with models that did and did
  not train on it.
* `matched_filter`: The weight of each known direction in a change of weights, by least squares on
  all of them.
* `membership_scores`: Membership scores of a text, which are higher for texts that the model was
  trained on.
* `membership_tests`: Permutation tests, over groups of records, of whether scores distinguish
  members from others.
* `participation`: A permutation test of whether an organisation took part, on its own groups of
  records.
* `roc`: The ROC curve of membership scores, its area, and its low end.
"""
