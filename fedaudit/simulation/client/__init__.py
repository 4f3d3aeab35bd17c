"""One client: training, its round, and what it keeps to itself.

* `local_round`: A client's turn: its training, and a defence's follow-up before anything is sent.
* `private_state`: What a client keeps to itself: its private adapters, and what it sends less
  than it trained.
* `trainer`: One client's LoRA training in one round.
* `training_pool`: The workers that clients train in: here, in processes, or on a cluster.
"""
