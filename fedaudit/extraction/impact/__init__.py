"""What a leak means: whose data it is, and whether the client's own records taught it.

* `counterfactual`: Counterfactual memorization of strings: how much likelier they come out than
  without the client.
* `persons`: People behind the strings: how many are exposed, by how many kinds of data, at what
  cost.
"""
