"""fedaudit canary: secrets of known law, planted before training and looked for afterwards.

* `check`: fedaudit canary check: whether training on a client's records learns its canaries.
* `exposure`: fedaudit canary measure: how far training moved each of them up among all.
* `group`: The subcommands together.
* `make`: fedaudit canary make: draw secrets for clients to train on.
* `plant`: fedaudit canary plant: a client's records with its canaries among them.
"""
