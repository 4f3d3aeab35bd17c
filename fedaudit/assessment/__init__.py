"""`fedaudit audit`: everything that applies to what is at hand, one verdict, one report.

* `defenses/`: What each installed defence would have bought and cost: the federation trained again
  under it.
* `attribution_step`: The attribution of marked documents, as one step of an audit.
* `context`: To whom a model is released, as somebody declares it: nothing of it is ever inferred.
* `cost`: What each step of an audit will ask the model, known before anything is asked.
* `coverage`: Which classes of attacks an audit ran, and why the others were not run.
* `discovery`: What is available for an audit: documents, held-out records, canaries, marks.
* `library`: The audit of everything from Python: the same as the command, with a report in return.
* `pipeline`: All steps of an audit on one loaded model, with one cache of answers and one report.
* `plan`: What an audit will do, what it leaves out, and why.
* `policy_file`: Policies: built in, or a TOML file.
* `report_checks`: What a report says of its policy and of the attacks that ran, checked against
  its content.
* `request`: What `fedaudit audit` is asked to do.
* `speed`: How fast a model answers here, tried on a few questions.
"""
