"""Fine-tuning of adapters, and gradients of losses.

* `finetune`: Tuning a copy of a model on short examples: a new LoRA adapter stacked on the one it
  has.
* `influence`: How the loss of texts answers to a change of the weights that an adapter touches,
  to first order.
* `loss`: The loss of a batch of sequences, at the price of the tokens that are learned.
"""
