"""fedaudit audit and compare: everything that applies, one verdict; two audits beside each other.

* `baseline`: What an audit shows against its baseline, printed, written, and as an exit code.
* `command`: The options of fedaudit audit, and the audit that they ask for.
* `compare`: fedaudit compare: what differs between two reports.
* `defenses`: The trainings under defences that an audit is asked for: their plan, and its report
  with them.
* `plan_text`: The plan of an audit in words, for a terminal.
* `run_index`: fedaudit report on a folder of many runs: a table, and one page.
"""
