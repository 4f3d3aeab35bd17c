"""fedaudit audit: everything that applies, one verdict.

* `command`: The options of fedaudit audit, and the audit that they ask for.
* `plan_text`: The plan of an audit in words, for a terminal.
"""
