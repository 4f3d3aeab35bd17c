"""What a report says in sentences.

* `answers`: The verdict in plain words: a sentence for each status, by what the audit was about.
* `attacks`: What a report says in words of what was tried, and what came of it.
* `glossary`: What the terms of a report mean, for readers who are not engineers.
* `summary`: What a report says in words: the answer, why, and what was audited.
"""
