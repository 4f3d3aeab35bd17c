"""A paper's whole study: several federations, attacks on them, and the paper's claims checked."""
