"""Membership inference: whether a record was trained on, told from how well a model knows it.

* `attack`: Membership inference: how well scores of a text tell trained records from held-out ones.
* `counterfactual`: Counterfactual memorization of records: what training without their client would
  have given.
* `likelihood_ratio`: LiRA (Carlini et al. 2022): how the model stands among those of reference
  federations.
* `measurements`: The measurements of scores: areas, rates and p values.
* `neighbours`: Texts near a record: the same with a few tokens that are drawn at random.
* `organisation`: Whether the organisation that records are of took part, tested on its own records.
* `reader`: What the models say of every record that is long enough.
* `scored_record`: A record, what models say of its tokens, and the scores that follow from it.
* `text_baseline`: Telling two sets of records apart by their words alone, without any model of
  language.
"""
