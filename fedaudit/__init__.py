"""fedaudit: what private data can be pulled out of a federated fine-tuned language model.

The public names for plugin authors are here and in `fedaudit.api.plugin`, `fedaudit.api.records`,
`fedaudit.api.errors` and `fedaudit.extraction.prefix_attack`; none of them imports torch.
"""

__version__ = "0.1.0"
