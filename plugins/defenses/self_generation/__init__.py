"""Self-generation of training examples (FewFedPIT)."""
