"""The inputs of an audit: documents, clients, held-out records, other models and members.

* `client_models`: The clients' own models in a round, which the server sees, and the clients'
  records.
* `clients`: The clients of a federation, with the files of their documents.
* `counterfactual`: The counterfactual federation, which was trained without the victim.
* `files`: The files of documents that an audit reads.
* `held_out`: Held-out records, which are like the victim's but were not trained on.
* `other_members`: Other members' records, whose strings do not count as exclusive to the victim.
* `reference_models`: Reference federations, trained like the target on other records, for
  membership inference.
* `round_models`: The global models of the rounds before the audited one, for attacks that read
  them.
"""
