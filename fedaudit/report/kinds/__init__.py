"""The kinds of a report's rows: one module each, with its rule, its tables and its words.

To add one, copy the module that is most like it, and name it in `registry`.

* `counterfactual`: Counterfactual memorization: what training without a client would have given.
* `epsilon`: A claimed epsilon: refuted, not refuted, or audited without the power to refute it.
* `exposure`: Canaries: whether training gave planted secrets away.
* `general`: The table, the sentence and the answer of a kind that does not bring its own.
* `inversion`: Inversion: whether the model gives away an attribute of a person known by name.
* `membership`: Membership: whether trained records can be told from held-out ones, and how many
  may be.
* `memorization`: Cross-client memorization: whether one client's prefixes draw another client's
  texts.
* `persons`: People: how many are exposed, by how many kinds of data, at what cost.
* `reconstruction`: Reconstruction: whether records can be read out of what a client sends.
* `registry`: All kinds in reading order: the built-in ones, and those that installed attacks bring.
* `source`: Source inference: how often a record is put down to the client that it is of.
"""
