"""fedaudit dp: a claimed epsilon, held against canaries that coins put into training.

* `audit`: fedaudit dp audit: is the claim refuted.
* `group`: The subcommands together.
* `make`: fedaudit dp make: canaries with coins, and what they can prove.
* `plant`: fedaudit dp plant: a client's records with those canaries that are in.
"""
