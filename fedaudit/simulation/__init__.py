"""A simulated federation: data, clients, server, rounds, evaluation.

* `client/`: One client: training, its round, and what it keeps to itself.
* `data/`: What clients train on: partition, data sets, loss masks, watermarked documents.
* `evaluation/`: What a federation is worth and costs: utility, answers, judge, cost.
* `server/`: The server: its state between rounds, and secure aggregation.
* `chosen_plugins`: A plugin in settings: its name, or a table with the name and its options.
* `config`: The settings of a simulated federation; a profile's [scale.*] tables are made of
  these.
* `context`: What every round of a simulation needs, and what listeners hear of its progress.
* `counterfactual`: A federation trained again without some clients: same seeds, same settings, same
  others.
* `deployment`: After the last round: what defences deploy, what it costs, and how it answers.
* `initialization`: What a simulation starts from: documents dealt to clients, and the initial
  adapter.
* `local_baseline`: Local tuning without federation (LocIT): a model of every client's own
  documents alone.
* `preparation`: The plugins of a simulation, chosen and checked before anything is read or
  written.
* `rounds`: The round loop: broadcast, train, aggregate, save; every finished round is kept.
* `session`: A simulation and its folder: settings, missing training, report.
* `runner`: A simulation from settings to a finished federation with its report.
"""
