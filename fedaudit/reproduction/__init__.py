"""A paper's study: federations, audits, pooled measurements and claims."""
