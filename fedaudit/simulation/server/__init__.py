"""The server: its state between rounds, and secure aggregation.

* `queries`: What a simulated server asks secure aggregation for: the table [scale.*.queries].
* `secure_aggregation`: A round under secure aggregation: the server keeps sums, and no client's
  update stays behind.
* `state`: The state of server and clients from round to round, and how it corrects gradients.
"""
