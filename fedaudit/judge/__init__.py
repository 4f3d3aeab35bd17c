"""A language model behind an endpoint that judges answers against reference answers.

* `cache`: A cache of judgements by content, in a JSONL file that grows.
* `endpoint`: An OpenAI-compatible chat endpoint that judges: asking it, and giving up in one line.
* `measurements`: A judge's verdicts as measurements: how often the answers win, tie and lose.
* `prompt`: What the judge is asked, and how its answer is read (FewFedPIT, appendix B).
* `verdicts`: Win, tie or lose: an answer against a reference, judged in both orders (FewFedPIT,
  4.1).
"""
