"""What assessors of data protection ask of an audit, answered from its report or named as open.

* `answer`: The answer to one question: how far a report answers it, in words, and by which
  measurements.
* `attackers`: Where attackers stand, what they must know, and what was measured for each of them.
* `benign_prompts`: How likely personal data comes out of ordinary queries: the answer that benign
  requests give.
* `claims`: What is claimed of a model under each question, and what speaks for and against it.
* `leaks`: Whose data came out, of which kinds, how grave, how likely, and at what cost.
* `measured`: The answers that numbers give.
* `measures`: What to do now, as far as the measurements support it.
* `questions`: The twenty questions that assessors of data protection ask, each with its source and
  answer.
* `stated`: The answers that the run, its context and its coverage give.
* `validity`: How long a report is evidence, and who owns it.
"""
