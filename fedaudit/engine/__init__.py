"""The only place that holds a model: loading, batching, generating, scoring."""
