"""What an audit reads: documents, clients, held-out records, other members' strings.

* `client_models`: The clients' own models in a round, which the server sees, and the records they
  are of.
* `clients`: Who takes part in a federation whose clients' documents are at hand.
* `counterfactual`: The federation that was trained without the victim: what the model would know
  without them.
* `files`: The files of documents that an audit reads.
* `held_out`: Records like the victim's that nobody trained on: what a model's skill alone gives
  away.
* `other_members`: What other members of the federation have: strings that they share are not the
  victim's alone.
* `reference_models`: Reference federations: trained alike on other records, to see what training on
  one does.
* `round_models`: The global models of the rounds before the one that is audited, where an attack
  reads them.
"""
