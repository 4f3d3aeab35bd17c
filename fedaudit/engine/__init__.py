"""Models: loading, batching, generating, scoring.

The only package that imports torch with its modules.
"""
