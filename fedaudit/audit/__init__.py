"""One audit from a request to a report.

* `epsilon/`: A claimed epsilon, held against canaries whose coins were committed to before
  training.
* `exposure/`: Exposure of canaries: how far training moved planted secrets up among all of their
  kind.
* `inputs/`: What an audit reads: documents, clients, held-out records, other members' strings.
* `memorization/`: Cross-client memorization: whose text the global model continues.
* `preflight/`: Checks of a target before anything is asked.
* `verification/`: Reports checked against their measurements and files.
* `access`: The engine for what is audited, and the ways to ask it: as it is, or as deployed under a
  key.
* `attack_pipeline`: `fedaudit extract` and `fedaudit infer`: attacks by one attacker, on one
  victim or on anybody.
* `attack_runner`: Several attacks in one context: answers are shared, and what the attacks found is
  compared.
* `cross_client`: Every client of a federation as attacker on every other one (FedPII, section 5.3
  and table 2).
* `deployment`: A client's deployed defence, opened to change its keys or to ask it one prompt.
* `doctor`: What a machine needs for an audit, each thing tried for real.
* `endpoint`: A model behind a server as what is audited: which options go with it, and asking it.
* `environment`: Where a run took place: versions, device, and the commit of the code when there
  is one.
* `evidence`: Masks personal data in what plugins found and wrote before it enters a report.
* `fingerprint`: What makes two runs the same: settings, data, and what is audited.
* `merge`: The shards of one audit as one: their journals together hold every answer.
* `pipeline`: From a request to a report: what every command that attacks a model has in common.
* `request`: Requests: what `fedaudit extract` and `fedaudit infer` are asked to do, and what all
  have.
* `result_contract`: What a plugin may return: checked as it returns, so that no audit ends with
  what no report holds.
* `resume`: Going on with an audit that was stopped, and what a stopped audit leaves.
* `session`: An audit and its folder: run it, go on with it, share it out and merge it.
* `stored_request`: A request as JSON and back: a journal holds it, so whoever has its folder can go
  on or merge.
* `target`: What is under audit: from --target, --adapter and --round to a base and an adapter.
"""
