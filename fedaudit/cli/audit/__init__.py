"""fedaudit audit and compare: everything that applies, one verdict; two audits beside each other.

* `baseline`: What an audit shows against its baseline, printed, written, and as an exit code.
* `command`: The options of fedaudit audit, and the audit that they ask for.
* `compare`: fedaudit compare: what differs between two reports.
* `defenses`: Trainings under defences as a part of an audit: their plan, and the report with their
  results.
* `plan_text`: The plan of an audit in words, for a terminal.
* `settings_file`: fedaudit.toml: an audit written down in its folder, and `fedaudit init`, which
  writes it.
"""
