"""What a federation is worth and costs: utility, answers, judge, cost.

* `answers`: Answers to held-out prompts, and how each is scored: right or not, or by Rouge-L and
  BLEU.
* `cost`: What a federation cost: numbers trained, bytes sent, floating-point operations.
* `keyed`: What a deployed defence costs in utility: perplexity under each key, beside adapters
  alone.
* `llm_judge`: The judge of a simulation's answers: asked where the settings name one,
  mentioned where not.
* `utility`: Held-out utility: loss, Rouge-L and accuracy by task, for the tuned model and its
  rivals.
"""
