"""One audit from a request to a report.

* `epsilon/`: A claimed epsilon, tested on canaries whose coins were committed to before training.
* `exposure/`: Exposure of canaries: the rank of planted secrets, by likelihood, among all of their
  kind.
* `inputs/`: The inputs of an audit: documents, clients, held-out records, other models and members.
* `memorization/`: Cross-client memorization: whose text the global model continues.
* `preflight/`: Measurements on a target before any attack: the adapter's effect, and the prompt
  start.
* `verification/`: Verifying reports against their own measurements and the files that they name.
* `access`: The engine for the audited model, and the ways to ask: directly, or as deployed under a
  key.
* `attack_pipeline`: `fedaudit extract` and `fedaudit infer`: attacks by one attacker, on one
  victim or on anybody.
* `attack_runner`: Running several attacks in one context, with shared answers and a comparison of
  results.
* `cross_client`: Every client of a federation as attacker on every other one (FedPII, section 5.3
  and table 2).
* `deployment`: A client's deployed defence, opened to change its keys or to ask it one prompt.
* `doctor`: The requirements of an audit on this machine, each tested in practice.
* `endpoint`: An audited model behind a server: the options that it allows, and the connection.
* `environment`: Where a run took place: versions, device, and the commit of the code when there
  is one.
* `evidence`: Masks personal data in what plugins found and wrote before it enters a report.
* `fingerprint`: The identity of a run: its settings, data, and the audited model.
* `merge`: Merging the shards of one audit: their caches together have every answer.
* `pipeline`: From a request to a report: the steps that all commands that attack a model share.
* `request`: Requests: the settings of `fedaudit extract` and `fedaudit infer`, and those all share.
* `resolve`: From a request to its inputs: all that is read from disk before a model is loaded.
* `result_contract`: What a plugin may return, checked at once, so that no audit ends with an
  invalid report.
* `resume`: Resuming an audit that was stopped, and what a stopped audit leaves behind.
* `session`: An audit and its folder: running, resuming, sharding and merging it.
* `stored_request`: Requests as JSON in a cache, so that an audit can be resumed or merged
  from its folder alone.
* `target`: The audited model: a base and an adapter, found from --target, --adapter and --round.
"""
