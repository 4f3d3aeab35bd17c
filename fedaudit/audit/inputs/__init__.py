"""The inputs of an audit: documents, clients, held-out records, other models and members.

* `client_models`: The clients' own models in a round, which the server sees, and the clients'
  records.
* `clients`: The clients of a federation, with the files of their documents.
* `counterfactual`: The counterfactual federation, which was trained without the victim.
* `files`: The files of documents that an audit reads.
* `held_out`: Held-out records, which are like the victim's but were not trained on.
* `input_file`: A file of documents, as an audit has read it.
* `other_members`: Other members' records, whose strings do not count as exclusive to the victim.
* `reader`: Reading what an audit needs: each federation is opened once, each file read and parsed
  once.
* `reference_models`: Reference federations, trained like the target on other records, for
  membership inference.
* `resolution`: The inputs of an audit, resolved: found, read and checked before a model is loaded.
* `round_models`: The global models of the rounds before the audited one, for attacks that read
  them.
"""
