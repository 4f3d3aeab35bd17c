"""The impact of a leak: the people it exposes, and whether the client's own records caused it.

* `counterfactual`: Counterfactual memorization of strings: their chance minus that without the
  client in training.
* `persons`: The people whom an attack exposes: their number, the kinds of data, and the queries per
  person.
"""
