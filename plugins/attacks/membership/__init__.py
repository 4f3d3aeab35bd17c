"""Membership inference: whether a record was trained on, told from how well a model knows it.

* `attack`: The attack: it reads members and held-out records, and compares them.
* `counterfactual`: Counterfactual memorization of records.
* `likelihood_ratio`: LiRA: how the model stands among those of reference federations.
* `measurements`: The measurements of scores: areas, rates and p values.
* `neighbours`: Texts near a record, whose loss is compared with its own.
* `organisation`: Whether the organisation that records are of took part, tested on its own records.
* `reader`: What the models say of every record that is long enough.
* `scored_record`: A record, what models say of its tokens, and the scores that follow from it.
* `text_baseline`: Telling two sets of records apart by their words alone.
"""
