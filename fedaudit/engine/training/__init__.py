"""Fine-tuning of adapters, and gradients of losses.

* `finetune`: Tuning a copy of a model on short examples: a new LoRA adapter stacked on the one it
  has.
* `influence`: How the loss of texts changes with the weights that an adapter changes, to first
  order.
* `loss`: The loss of a batch of sequences, at the cost of the tokens that are learned.
"""
