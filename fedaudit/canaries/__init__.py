"""Canaries: secrets of known law that are planted before training and looked for afterwards.

* `canary_file`: The auditor's file of canaries, which is secret, and the commitment to it.
* `coin_file`: The file of canaries that coins put into training or leave out, and the commitment
  to it.
* `coin_generator`: New canaries with coins: beginnings of records, and ends that no model would
  write.
* `coin_planting`: A client's records with those canaries among them that the coins put in.
* `generator`: New canaries: who gets which secret, in which sentence, how often.
* `kinds`: The kinds of secrets, and the sentences that hold them.
* `loss_coverage`: Which copies of a client's canaries training learns from, told from its batches.
* `planting_plan`: A client's records with its canaries among them.
* `ranking`: How likely a model finds each secret among all, or a sample, of its space.
* `secret_space`: Every secret of one kind, each with a number: a space can be counted, listed and
  drawn from.
* `trainer`: For a Trainer of transformers or TRL: whether the canaries that it was given are
  learned.
"""
