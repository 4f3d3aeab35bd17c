"""A simulated federation: data, clients, server, rounds, evaluation."""
