"""What assessors of data protection ask of an audit, answered from its report or named as open.

* `answer`: The answer to one question.
* `attackers`: Where attackers stand, what they must know, and what was measured for each.
* `benign_prompts`: How likely personal data comes out of ordinary queries.
* `claims`: What is claimed of a model under each question, and what speaks for and against it.
* `leaks`: Whose data came out, of which kinds, how grave, how likely, at what cost.
* `measured`: The answers that numbers give.
* `measures`: What to do now, as far as the measurements support it.
* `questions`: The twenty questions, each with its source and its answer.
* `stated`: The answers that the run, its context and its coverage give.
* `validity`: How long a report is evidence, and who owns it.
"""
